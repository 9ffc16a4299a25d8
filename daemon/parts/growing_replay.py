"""The replay of one running session, rendered further as the session's files grow.

After a restart it is rendered from the beginning. Nothing is written until it is found to begin with what is recorded.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from runward.config.bundle import BundleRules
from runward.daemon.parts.drafting import ToldActions
from runward.daemon.rundir.call_reading import CallReading
from runward.daemon.store.tables.replays import NOTHING, LastTold, RunningReplay
from runward.daemon.world.files import Files
from runward.handlers.bundle.parts import REPLAY, part_name
from runward.handlers.calls import Returned, Told, as_shown
from runward.handlers.journal.place import journal_directory
from runward.handlers.model.bundle import BundleOrder, Grown, Step, Stretch, Verdict
from runward.handlers.model.files import Unreadable

if TYPE_CHECKING:
    from runward.handlers.bundle.replay import Replay

MOST_STEPS: Final = 1000
"""Times that actions in the exchange are shown among a running session's calls; further ones are shown at its end."""

MOST_ACTIONS: Final = 500
"""Actions in the exchange that are rendered at once: each may be as large as a call."""

MOST_BYTES: Final = 4 << 20
"""Bytes of a session's calls that are read at once."""


class Changed(Exception):
    """The session's files no longer produce what was shown."""


@dataclass(slots=True)
class GrowingReplay:
    """A replay being rendered: `length` bytes of it so far, of which the first `written` are in its file.

    `recorded` is what the store has of it. Until that is rendered and found to be the same, nothing is written.
    """

    replay: "Replay"
    calls: CallReading
    recorded: Grown | None
    is_verified: bool
    is_lost: bool = False
    """Whether its file lacks lines that are recorded: then it is rendered once more, and written again."""
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    length: int = 0
    written: int = 0
    steps: tuple[Step, ...] = ()
    last: LastTold = NOTHING
    """The last of the actions that are rendered."""
    has_more_actions: bool = False
    """Whether there are further ones that the next step can render."""

    @property
    def order(self) -> BundleOrder:
        """The order by which it is rendered."""
        return self.replay.order

    @property
    def grown(self) -> Grown:
        """What is rendered so far."""
        issue, policy = self.replay.begun_with
        return Grown(self.length, self.digest.hexdigest(), issue, policy, self.steps)

    @property
    def has_read(self) -> bool:
        """Whether the session's files, or its actions, said anything yet."""
        return len(self.replay.calls) > 0 or any(end for _, end in self.calls.offsets)

    def continues(self, running: RunningReplay) -> bool:
        """Whether this leads to what is recorded of the attempt that runs."""
        recorded = None if running.begun is None else running.begun.grown
        return (self.order.key, self.order.attempt, self.recorded) == (running.key, running.attempt, recorded)

    def further(self, actions: ToldActions, count: int, ends: Mapping[str, int] | None) -> tuple[bytes, bool]:
        """The next lines to write, and whether there may be more at once.

        `count` actions have their results. With `ends` each log is read only up to this byte. Raises `Changed`.
        """
        self.calls.obstacles.clear()
        before = self.calls.offsets
        lines = b"".join([self._take(line) for line in self._lines(actions, count, ends)])
        # What was read once reads otherwise now: the lines that were shown may be wrong.
        if self.calls.changed:
            raise Changed
        return lines, self.calls.offsets != before or self.has_more_actions

    def restarted(self, files: Files) -> "GrowingReplay":
        """The same replay, to be written again from its first line."""
        calls = files.calls(self.order.layout, self.order.path)
        return GrowingReplay(_replay(self.order), calls, self.recorded, is_verified=True)

    def _lines(self, actions: ToldActions, count: int, ends: Mapping[str, int] | None) -> Iterator[bytes]:
        """The next lines. The steps of an earlier daemon are repeated in one go."""
        # The actions of the exchange came between the calls at certain points. Repeating the steps puts them
        # there again.
        again = self.recorded.steps if self.recorded is not None and self.length == 0 else ()
        if not any(step.others for step in again):
            again = ()
        is_behind = self.recorded is not None and self.length < self.recorded.length
        if len(self.steps) >= MOST_STEPS or (is_behind and not again):
            count = 0
        most = count if again else min(count, self.last.line + MOST_ACTIONS)
        self.has_more_actions = most < count
        with closing(actions(self.order.key, most, self.last)) as taken:
            others = _Counted(taken, self.last)
            calls = self.calls.told(None if again else MOST_BYTES, ends)
            yield from self.replay.more(as_shown(calls, others, again))
        yield from self.replay.begin()
        self._step(again or self.steps, (self.steps[-1].others if self.steps else 0) + others.count)
        # The last of them may have told nothing.
        self.last = LastTold(max(most, others.last.line), others.last.at)

    def _step(self, before: tuple[Step, ...], others: int) -> None:
        """Note how far this step rendered, to repeat it after a restart."""
        # Steps without new actions are merged, or a long session would keep one for each look.
        earlier = [step.others for step in (Step(0, 0), *before)][-2:]
        kept = before[:-1] if earlier == [others, others] else (*before[:-1], *map(_bare, before[-1:]))
        written = (0, "") if self.recorded is None else (self.recorded.length, self.recorded.sha256)
        self.steps = (*kept, Step(sum(end for _, end in self.calls.offsets), others, *written))

    def _take(self, line: bytes) -> bytes:
        """Add a line; returns what must be written of it. Raises `Changed`."""
        if self.recorded is not None and 0 < (recorded := self.recorded.length - self.length) <= len(line):
            start = self.digest.copy()
            start.update(line[:recorded])
            # After a restart nothing is written before the rendering has reached what is recorded, and is the
            # same.
            if start.hexdigest() != self.recorded.sha256:
                raise Changed
            self.is_verified = True
        self.digest.update(line)
        self.length += len(line)
        return line[max(0, len(line) - (self.length - self.written)) :] if self.is_verified else b""


def _replay(order: BundleOrder) -> "Replay":
    from runward.handlers.bundle.replay import Replay  # with the first call of a run

    return Replay(order)


def begin_replay(
    files: Files, running: RunningReplay, stretch: Stretch, rules: BundleRules
) -> GrowingReplay | None:
    """Begin to render a replay; None if its written part can't be read now. Raises `OSError`."""
    grown = None if running.begun is None else running.begun.grown
    order = BundleOrder(
        key=running.key,
        session_id=running.session_id,
        layout=running.layout,
        path=running.path,
        directory=journal_directory(running.layout, running.key, running.path),
        attempt=running.attempt,
        stretch=stretch,
        verdict=Verdict(
            at=0.0, status="running", reason_code="", reason_summary="", delivery=None, hash=None
        ),
        rules=rules,
        grown=grown,
    )
    calls = files.calls(running.layout, running.path)
    if grown is None:
        return GrowingReplay(_replay(order), calls, None, is_verified=True)
    there = files.replay_standing(order.directory, part_name(REPLAY, running.attempt), grown.length)
    if isinstance(there, Unreadable):
        return None
    stands = (there.length, there.sha256) == (grown.length, grown.sha256)
    written = grown.length if stands else 0
    return GrowingReplay(_replay(order), calls, grown, is_verified=False, is_lost=not stands, written=written)


def _bare(step: Step) -> Step:
    return Step(step.end, step.others)


class _Counted:
    """Counts the calls of actions that pass through. `last` is the last action among them, or else before them."""

    def __init__(self, calls: Iterable[Told], last: LastTold) -> None:
        self._told = iter(calls)
        self.count = 0
        self.last = last

    def __iter__(self) -> Iterator[Told]:
        return self

    def __next__(self) -> Told:
        following = next(self._told)
        self.count += 1
        if isinstance(following, Returned):
            self.last = LastTold(following.place.line, following.at or self.last.at)
        return following
