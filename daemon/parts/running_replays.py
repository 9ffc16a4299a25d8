"""Replays that grow while their sessions run, so that anybody can see what was called so far.

A line is a function of the session's files. Its length and hash are recorded before it is written. So a line that a
crash lost is rendered again, and what was shown stays the beginning of the whole replay, which the bundle's job writes.
For a foreign session only what the worker has read is rendered. For a native run nothing is rendered while its
documents differ from those of the last look. So no call appears in an attempt that is already over.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, TypeAlias

import anyio
import anyio.to_thread

from runward.config.bundle import BundleRules
from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.part import Part, let_verdicts_pass
from runward.daemon.parts.answering import Bundled
from runward.daemon.parts.bundles import ToldActions
from runward.daemon.parts.growing_replay import Changed, GrowingReplay, begin_replay
from runward.daemon.rundir.bundle_parts import KeptAside
from runward.daemon.rundir.opening import Gone, unreadable
from runward.daemon.rundir.run_directories import Mark
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.store.tables import replays
from runward.daemon.store.tables.replays import GROW, RunningReplay, grown_row
from runward.daemon.store.transaction import NOT_STORED, Statement
from runward.daemon.watch.hints import Target
from runward.daemon.watch.remembered import read_remembered
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.handlers.bundle.parts import REPLAY, part_name
from runward.handlers.exchange.intent import RESULTS
from runward.handlers.layouts import native
from runward.handlers.layouts.call_readers import TRACE
from runward.handlers.model.bundle import BegunReplay, BundleRulesOf, Grown, Stretch
from runward.handlers.model.files import Unreadable
from runward.handlers.model.sessions import Signature
from runward.handlers.sessions.observe import read_watched

SOURCES: Final = (TRACE, RESULTS, native.FLOW)
"""The files that a native run's further calls come from."""

SETTLED: Final = 1.0
"""Seconds after a change of a directory until its time of change tells the next one from it."""


# Nothing reports that an agent's `trace.jsonl` grows, so its state is compared with the one before the last
# reading.
@dataclass(slots=True)
class QuietRuns:
    """The quiet runs, each with the state of its files."""

    files: Files
    clock: Clock
    _marks: dict[Target, Mark] = field(default_factory=dict)

    def __contains__(self, target: Target) -> bool:
        return target in self._marks

    def marks(self, paths: Mapping[Target, str]) -> dict[Target, Mark]:
        """The state of runs' files, taken in a thread before they are read.

        A state that the next change might not alter is left out.
        """
        now, marks = self.clock.now(), {}
        for target, path in paths.items():
            mark = self.files.mark_of(path, SOURCES)
            # A change within the same tick as this state would not alter it, and the run would count as
            # quiet.
            if mark is not None and now - mark.directory[2] / 1e9 >= SETTLED:
                marks[target] = mark
        return marks

    def note(self, target: Target, mark: Mark | None) -> None:
        """Record that a run's files were fully read in this state."""
        if mark is not None:
            self._marks[target] = mark

    def unchanged(self, paths: Mapping[Target, str]) -> set[Target]:
        """Those of these runs whose files are as they were, compared in a thread."""
        marks = dict(self._marks)
        return {
            target
            for target, path in paths.items()
            if target in marks and self.files.is_as_marked(path, marks[target])
        }

    def disturb(self, targets: Collection[Target]) -> None:
        """Forget these runs: they changed, or they are over."""
        for target in targets:
            self._marks.pop(target, None)

    def disturb_all(self) -> None:
        """Forget all runs: everything may have to be read again."""
        self._marks.clear()


PERIOD: Final = 2.0
"""Seconds between two looks at what a session has called. Runs that are shorter never have a growing replay."""

QUIET_PERIOD: Final = 4.0
"""The same for a native run that called nothing new at the last look: then its files are only compared."""

COMPARED_AT_ONCE: Final = 1024
"""Native runs whose files are compared in one go."""

SHARE: Final = 10
"""A pause lasts this many times as long as the pass before it, which bounds the share of time for this work."""

AT_ONCE: Final = 64
"""Sessions of one pass, which costs one commit."""

MOST_PASS: Final = 16 << 20
"""Bytes that all sessions of a pass may have rendered; the others wait for the next one."""

MOST_CALLS: Final = 50_000
"""Calls of all sessions together that are kept in memory.

A session that was dropped is rendered again when it grows.
"""

OVERHEAD: Final = 10
"""How many calls a session itself counts as, towards the limit."""

TRIED_AGAIN: Final = 30.0
"""Seconds until what the disk refused is tried again."""

CHANGED: Final = "the session's files changed after its replay was shown; the rest is written at its end"

_Answer: TypeAlias = KeptAside | Unreadable | Gone | None
"""What happened to the lines of a step; None if they are written."""


class _Step(NamedTuple):
    """The next lines of a session's replay, and whether there may be more at once."""

    running: RunningReplay
    fold: GrowingReplay
    lines: bytes = b""
    problem: str | None = None
    more: bool = False

    @property
    def attempt(self) -> tuple[str, int]:
        """The attempt that the replay belongs to."""
        return self.running.key, self.running.attempt

    @property
    def grown(self) -> Grown:
        """What the store will record once these lines are added. With a problem, no more lines follow."""
        recorded = self.fold.recorded
        return self.fold.grown if self.problem is None or recorded is None else recorded

    @property
    def is_news(self) -> bool:
        """Whether this is new to the store."""
        recorded = self.fold.recorded
        return self.problem is not None or recorded is None or self.fold.length > recorded.length


@dataclass(slots=True)
class RunningReplays(Part):
    """The replays of running sessions. `roots` is keyed by name."""

    concern: ClassVar = "replays of running sessions"

    files: Files
    roots: Mapping[str, WatchedRoot]
    bundled: Bundled
    actions: ToldActions
    """A session's actions in the exchange, as calls."""
    busy: Callable[[], bool]
    """Whether verdicts are in progress: they come first."""
    low_disk: Callable[[], str | None]
    placing: anyio.Lock
    """Held while parts of bundles get their names."""
    patience: float = PERIOD
    """Seconds from a session's first look until its replay is begun."""
    share: int = SHARE
    _due: dict[Target, float] = field(default_factory=dict)
    """When each session is looked at again, by the monotonic clock."""
    _folds: dict[tuple[str, int], GrowingReplay] = field(default_factory=dict)
    _quiet: QuietRuns = field(init=False)
    _not_before: float = -math.inf

    def __post_init__(self) -> None:
        self._quiet = QuietRuns(self.files, self.clock)

    def look(self, target: Target) -> None:
        """A running session was looked at, because something in it changed or it is new."""
        self._quiet.disturb([target])
        # Runs that are shorter than this never have a growing replay, which most are.
        if target not in self._due:
            self._due[target] = self.clock.monotonic() + self.patience
            self.wake()
        elif self._due[target] == math.inf:
            self._due[target] = self.clock.monotonic() + PERIOD
            self.wake()

    def use(self, settings: Settings) -> None:
        """Other rules may apply to the roots."""
        self._quiet.disturb_all()
        self._put_off(list(self._due), self.clock.monotonic())
        self.wake()

    def forget(self, target: Target) -> None:
        """Stop following a session that is over."""
        self._due.pop(target, None)
        self._quiet.disturb([target])

    def pause(self) -> float | None:
        due = min(self._due.values(), default=math.inf)
        return None if due == math.inf else max(0.0, max(due, self._not_before) - self.clock.monotonic())

    async def carry_out(self) -> bool:
        """Let the replays of the next sessions grow; returns whether there were any that are due."""
        now = self.clock.monotonic()
        if now < self._not_before:
            return False
        due = [target for target, at in self._due.items() if at <= now]
        if not due:
            return False
        if self.low_disk() is not None:
            self._put_off(due, now + TRIED_AGAIN)
            return True
        # Nobody waits for these lines, but somebody waits for a verdict.
        await let_verdicts_pass(self.busy)
        began = self.clock.monotonic()
        try:
            if any(target in self._quiet for target in due):
                soon = [target for target, at in self._due.items() if at <= now + QUIET_PERIOD / 2]
                quiet = [target for target in soon if target in self._quiet]
                await self._pass_over_unchanged(quiet[:COMPARED_AT_ONCE])
            if loud := [target for target in due if target not in self._quiet][:AT_ONCE]:
                await self._grow(loud)
            self.trouble = None
        except (*NOT_STORED, StoreUnreadable) as error:
            self.trouble = str(error)
            # It is unknown what was recorded. So each replay is rendered again, and compared with what the
            # store has.
            self._folds.clear()
            self._quiet.disturb_all()
            self._put_off(due, now + TRIED_AGAIN)
        ended = self.clock.monotonic()
        # The pause follows the cost, so this work takes a bounded share of the time, however many sessions
        # run.
        self._not_before = ended + self.share * (ended - began)
        return True

    def _put_off(self, targets: Sequence[Target], until: float) -> None:
        for target in targets:
            if target in self._due:
                self._due[target] = until

    async def _pass_over_unchanged(self, quiet: Sequence[Target]) -> None:
        """Postpone those of these runs whose files didn't change, without asking the store."""
        unchanged = await in_thread(self._quiet.unchanged, self._native_paths(quiet))
        self._quiet.disturb(set(quiet) - unchanged)
        self._put_off(list(unchanged), self.clock.monotonic() + QUIET_PERIOD)

    def _native_paths(self, targets: Sequence[Target]) -> dict[Target, str]:
        """The directories of those that are native runs."""
        roots = {name: root.path for name, root in self.roots.items() if root.shape is None}
        return {target: f"{roots[target[0]]}/{target[1]}" for target in targets if target[0] in roots}

    async def _grow(self, due: Sequence[Target]) -> None:
        targets = {f"{root}/{place}": (root, place) for root, place in due}
        # Before anything is read, so that any later change alters the marks.
        marks = await in_thread(self._quiet.marks, self._native_paths(due))
        recorded = await replays.running_replays(self.store, targets)
        stretches = await replays.stretches(self.store, [(each.key, each.attempt) for each in recorded])
        # Set before the work: whatever fails below, no session is tried in a tight loop.
        self._put_off(due, self.clock.monotonic() + TRIED_AGAIN)
        steps = await in_thread(self._render, recorded, stretches, targets)
        # From the record to the write, no part gets its final name. So nothing is ever written into a
        # finished replay.
        async with self.placing:
            # Recorded first, then written: a reader never sees a line that a crash could take back.
            refused = await self._record(steps)
            with anyio.CancelScope(shield=True):
                answers = await anyio.to_thread.run_sync(self._write, steps, refused)
        for step, answer in zip(steps, answers, strict=True):
            target = targets[step.running.place]
            self._note(target, step, answer, marks.get(target))
        self._let_go()

    async def _record(self, steps: Sequence[_Step]) -> set[tuple[str, int]]:
        """Record what will be written; returns the attempts that are over, whose replays grow no further."""
        news = [(step, step.grown) for step in steps if step.is_news]
        if not news:
            return set()
        rows = [
            grown_row(*step.attempt, BegunReplay(grown, step.fold.order.rules), step.problem)
            for step, grown in news
        ]
        await self.store.run([Statement(GROW, rows)], "grow")
        known = await replays.replay_lengths(self.store, [step.running.key for step, _ in news])
        refused: set[tuple[str, int]] = set()
        for step, grown in news:
            # The statement changes a row only while its attempt runs. So a verdict that came first leaves it
            # as it was.
            if known.get(step.attempt) == grown.length:
                step.fold.recorded = grown
            else:
                refused.add(step.attempt)
        return refused

    def _write(self, steps: Sequence[_Step], refused: set[tuple[str, int]]) -> list[_Answer]:
        """Write the lines that are recorded."""
        try:
            self.files.check_epoch(self.store.epoch)
        except OSError as error:
            return [unreadable(error) for _ in steps]
        return [Gone() if step.attempt in refused else self._write_lines(step) for step in steps]

    def _write_lines(self, step: _Step) -> _Answer:
        fold, name = step.fold, part_name(REPLAY, step.running.attempt)
        if not step.lines:
            return None
        try:
            answer = self.files.write_lines(fold.order.directory, name, fold.written, step.lines)
        except OSError as error:
            return unreadable(error)
        if answer is None:
            fold.written += len(step.lines)
        return answer

    def _note(self, target: Target, step: _Step, answer: _Answer, mark: Mark | None) -> None:
        """Remember the result of a step, and when to look at the session again."""
        fields = {"session": step.running.key, "attempt": step.running.attempt}
        now = self.clock.monotonic()
        if step.problem is not None:
            self.log.warning("replay.changed", **fields, why=step.problem)
            self._put_off([target], math.inf)
        elif answer is None:
            again = now + PERIOD if step.running.layout == native.LAYOUT else math.inf
            self._put_off([target], now if step.more else again)
            self._folds[step.attempt] = step.fold
            if not step.more and target in self._due:
                self._quiet.note(target, mark)
        elif isinstance(answer, KeptAside):
            self.log.warning("replay.kept_aside", **fields, file=answer.name)
            self._put_off([target], now)
        elif isinstance(answer, Unreadable):
            self.log.warning("replay.delayed", **fields, why=answer.why)

    def _let_go(self) -> None:
        """Forget the least recently used folds, to limit the memory used."""
        # In order of use: a dropped replay is rendered again when its session grows.
        held = sum(len(fold.replay.calls) + OVERHEAD for fold in self._folds.values())
        for attempt in list(self._folds):
            if held <= MOST_CALLS:
                return
            held -= len(self._folds.pop(attempt).replay.calls) + OVERHEAD

    def _render(
        self,
        recorded: Sequence[RunningReplay],
        stretches: Mapping[tuple[str, int], Stretch],
        targets: Mapping[str, Target],
    ) -> list[_Step]:
        """The next lines of each session, in a thread. The due times of the others are set here."""
        steps: list[_Step] = []
        total = 0
        for running in recorded:
            target, now = targets[running.place], self.clock.monotonic()
            stretch = stretches.get((running.key, running.attempt))
            if total > MOST_PASS:
                self._put_off([target], now)
                continue
            if stretch is None:
                continue
            if running.problem is not None:
                self._put_off([target], math.inf)
                continue
            begun = running.begun
            rules = (
                self.bundled(BundleRulesOf(running.layout, running.path)) if begun is None else begun.rules
            )
            if rules is None:
                self._put_off([target], math.inf)  # until the settings change
                continue
            try:
                step = self._next(running, stretch, rules, target)
            except OSError as error:
                self.log.warning("replay.delayed", session=running.key, why=unreadable(error).why)
                continue
            if step is None:
                self._put_off([target], now + PERIOD)
            else:
                steps.append(step)
                total += len(step.lines)
        return steps

    def _next(
        self, running: RunningReplay, stretch: Stretch, rules: BundleRules, target: Target
    ) -> _Step | None:
        """The next lines of a session; None if they can't be determined now."""
        root, state = self.roots.get(target[0]), _read_of(running)
        fold = self._folds.pop((running.key, running.attempt), None)
        if root is None or state is None:
            return None
        begun = running.begun
        # Another daemon, or a pass that failed, recorded something else. What is in memory no longer leads
        # there.
        if fold is None or fold.recorded != (None if begun is None else begun.grown):
            fold = begin_replay(self.files, running, stretch, rules)
        if fold is None:
            return None
        try:
            lines, more = fold.further(self.actions, running.actions, state.ends)
            if not more and not fold.is_verified:
                if state.ends is not None:
                    return None  # the worker will read the session again
                raise Changed
        except Changed:
            return None if begun is None else _Step(running, fold, problem=CHANGED)
        # A new attempt may have begun. Its calls must not get into the replay of the one before.
        if not self._is_as_looked_at(root, target, state):
            return None
        if fold.is_verified and fold.is_lost:
            return _Step(running, fold.restarted(self.files), more=True)
        return _Step(running, fold, lines, more=more)

    def _is_as_looked_at(self, root: WatchedRoot, target: Target, state: "_State") -> bool:
        """Whether what was just read belongs to the attempt that the worker knows: a new one changes the documents
        first."""
        if state.documents is None:
            return True
        known = {target[1]: state.documents}
        return target[1] in self.files.unchanged(root.path, native.DOCUMENTS, known)


class _State(NamedTuple):
    """What the last look found: the documents of a native run, or how far a foreign session's logs were read."""

    documents: Mapping[str, Signature] | None = None
    ends: Mapping[str, int] | None = None


def _read_of(running: RunningReplay) -> _State | None:
    """What the last look found; None if the store lacks some of its consequences."""
    if running.layout == native.LAYOUT:
        watched = read_watched(running.state)
        if watched is None or (watched.phase, watched.attempt) != ("open", running.attempt):
            return None
        return _State(documents=dict(watched.signatures))
    remembered = read_remembered(running.state)
    if remembered is None:
        return None
    followed = remembered.followed
    if (followed.phase, followed.attempt) != ("open", running.attempt):
        return None
    return _State(ends={log.name: log.cursor.offset for log in remembered.read.logs})
