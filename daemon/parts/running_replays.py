"""Replays that grow while their sessions run, so that anybody can see what was called so far.

A line is a function of the session's files. Its length and hash are recorded before it is written. So a line that a
crash lost is rendered again, and what was shown stays the beginning of the whole replay, which the bundle's job writes.
For a foreign session only what the worker has read is rendered. For a native run nothing is rendered while its
documents differ from those of the last look. So no call appears in an attempt that is already over.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, TypeAlias

import anyio
import anyio.to_thread

from runward.config.bundle import BundleRules
from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.part import Done, Part, let_verdicts_pass
from runward.daemon.parts.answering import Bundled
from runward.daemon.parts.drafting import ToldActions
from runward.daemon.parts.growing_replay import Changed, GrowingReplay, begin_replay
from runward.daemon.rundir.bundle_parts import KeptAside
from runward.daemon.rundir.opening import Gone, unreadable
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.store.tables import replays
from runward.daemon.store.tables.replays import GROW, RunningReplay, grown_row
from runward.daemon.store.transaction import NOT_STORED, Statement
from runward.daemon.watch.hints import Target
from runward.daemon.watch.remembered import read_remembered
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import until_beat
from runward.daemon.world.files import Files
from runward.handlers.bundle.parts import REPLAY, part_name
from runward.handlers.layouts import native
from runward.handlers.layouts.call_readers import TRACE
from runward.handlers.model.bundle import BegunReplay, BundleRulesOf, Grown, Stretch
from runward.handlers.model.exchange import CountIntent
from runward.handlers.model.files import Signature, Unreadable
from runward.handlers.sessions.observe import read_watched

SETTLED: Final = 1.0
"""Seconds after a change of a trace until its time of change tells the next one from it."""


class _Quiet(NamedTuple):
    """A native run that called nothing new: its trace, and what that was like when it was read (None: not there)."""

    trace: str
    read: Signature | None


PERIOD: Final = 2.0
"""Seconds between two looks at what a session has called. Runs that are shorter never have a growing replay."""

QUIET_PERIOD: Final = 4.0
"""The same for a native run that called nothing new at the last look: then its trace is only compared."""

COMPARED_AT_ONCE: Final = 1024
"""Native runs whose traces are compared in one go."""

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
    _followed: set[Target] = field(default_factory=set)
    """The sessions that run."""
    _due: dict[Target, float] = field(default_factory=dict)
    """When to read further in those that may have more to show, by the monotonic clock."""
    # No hint reports that an agent's trace grows, so it is compared with what was read. Whatever else a replay comes
    # from is reported: a look at the run, or an action with its result.
    _quiet: dict[Target, _Quiet] = field(default_factory=dict)
    """The native runs that are only compared, all in one pass."""
    _reported: set[Target] = field(default_factory=set)
    """Those that were reported since they were last read."""
    _compared: deque[tuple[Target, _Quiet]] = field(default_factory=deque)
    """Those that the current pass has still to reach."""
    _pass_at: float = math.inf
    """When the next pass begins, by the monotonic clock."""
    _folds: dict[Target, GrowingReplay] = field(default_factory=dict)
    """What is rendered so far of the sessions whose files say something."""
    _not_before: float = -math.inf

    def look(self, target: Target) -> None:
        """A running session was looked at, because something in it changed or it is new."""
        # Runs that are shorter than this never have a growing replay, which most are.
        patience = PERIOD if target in self._followed else self.patience
        self._followed.add(target)
        self._look_in([target], patience)

    def acted(self, done: Done[CountIntent]) -> None:
        """These runs' actions in the exchange have results: they are among what their replays show."""
        targets = [native.place_of(effect.session_key) for _, effect in done]
        self._look_in([each for each in targets if each in self._followed], PERIOD)

    def _look_in(self, targets: Iterable[Target], patience: float) -> None:
        """Read further in these in so many seconds, unless they are due before."""
        at = self.clock.monotonic() + patience
        for target in targets:
            self._reported.add(target)
            self._quiet.pop(target, None)
            if target not in self._due:
                self._due[target] = at
                self.wake()

    def use(self, settings: Settings) -> None:
        """Other rules may apply to the roots."""
        self._disturb_all(self.clock.monotonic())
        self.wake()

    def _disturb_all(self, at: float) -> None:
        """Everything may have to be read again."""
        self._quiet.clear()
        self._put_off(self._followed, at)

    def forget(self, target: Target) -> None:
        """Stop following a session that is over."""
        self._followed.discard(target)
        self._reported.discard(target)
        self._due.pop(target, None)
        self._quiet.pop(target, None)
        self._folds.pop(target, None)

    def pause(self) -> float | None:
        passes = -math.inf if self._compared else self._pass_at if self._quiet else math.inf
        at = max(min([passes, *self._due.values()]), self._not_before)
        return None if at == math.inf else max(0.0, at - self.clock.monotonic())

    async def carry_out(self) -> bool:
        """Let the replays of the next sessions grow; returns whether there were any that are due."""
        now = self.clock.monotonic()
        if now < self._not_before:
            return False
        due = [target for target, at in self._due.items() if at <= now]
        if not self._compared and self._quiet and now >= self._pass_at:
            self._compared, self._pass_at = deque(self._quiet.items()), now + until_beat(QUIET_PERIOD)
        if not due and not self._compared:
            return False
        if self.low_disk() is not None:
            self._put_off(due, now + TRIED_AGAIN)
            self._compared, self._pass_at = deque(), now + TRIED_AGAIN
            return True
        # Nobody waits for these lines, but somebody waits for a verdict.
        await let_verdicts_pass(self.busy)
        began = self.clock.monotonic()
        try:
            if self._compared:
                due += await self._compare()
            if due:
                await self._grow(due[:AT_ONCE])
            self.trouble = None
        except (*NOT_STORED, StoreUnreadable) as error:
            self.trouble = str(error)
            # It is unknown what was recorded. So each replay is rendered again, and compared with what the
            # store has.
            self._folds.clear()
            self._disturb_all(now + TRIED_AGAIN)
        ended = self.clock.monotonic()
        # The pause follows the cost, so this work takes a bounded share of the time, however many sessions
        # run.
        self._not_before = ended + self.share * (ended - began)
        return True

    def _put_off(self, targets: Iterable[Target], until: float) -> None:
        for target in targets:
            if target in self._followed:
                self._due[target] = until

    def _let_be(self, target: Target) -> None:
        """Nothing more is read of it until something reports that it changed."""
        self._due.pop(target, None)

    async def _compare(self) -> list[Target]:
        """Compare the traces of the next quiet runs; those that changed are due."""
        some = [self._compared.popleft() for _ in range(min(COMPARED_AT_ONCE, len(self._compared)))]
        changed = await in_thread(self._changed, some)
        # Looked up again: it may be over, or may have been reported, while the thread compared.
        due = [target for target in changed if self._quiet.pop(target, None) is not None]
        self._put_off(due, self.clock.monotonic())
        return due

    def _changed(self, some: Iterable[tuple[Target, _Quiet]]) -> list[Target]:
        signature_at = self.files.signature_at
        return [target for target, (trace, read) in some if signature_at(trace) != read]

    def _traces(self, targets: Iterable[Target]) -> dict[Target, _Quiet]:
        """The traces of the native runs among these as they are now; one that the next change might not alter is left out."""
        now, traces = self.clock.now(), {}
        roots = {name: root.path for name, root in self.roots.items() if root.shape is None}
        for target in targets:
            if target[0] not in roots:
                continue
            path = f"{roots[target[0]]}/{target[1]}/{TRACE}"
            signature = self.files.signature_at(path)
            # A change within the same tick as this one would not alter it, and the run would count as quiet.
            if signature is None or now - signature.modified_ns / 1e9 >= SETTLED:
                traces[target] = _Quiet(path, signature)
        return traces

    async def _grow(self, due: Sequence[Target]) -> None:
        targets = {f"{root}/{place}": (root, place) for root, place in due}
        # Before anything is read: what is reported from here on may not be in what is read, so it is read once more.
        self._reported.difference_update(due)
        # Likewise, so that any later change of a trace is found by comparing.
        traces = await in_thread(self._traces, due)
        # Set before the work: whatever fails below, no session is tried in a tight loop.
        self._put_off(due, self.clock.monotonic() + TRIED_AGAIN)
        recorded = await replays.running_replays(self.store, targets)
        silent = [each for each in recorded if self._is_silent(each, traces.get(targets[each.place]))]
        for running in silent:
            target = targets[running.place]
            self._continue(target, running, traces[target])
        if silent:
            recorded = [each for each in recorded if each not in silent]
        if not recorded:
            return
        stretches = await replays.stretches(self.store, [(each.key, each.attempt) for each in recorded])
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
            self._note(target, step, answer, traces.get(target))
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

    def _note(self, target: Target, step: _Step, answer: _Answer, trace: _Quiet | None) -> None:
        """Remember the result of a step, and when to look at the session again."""
        fields = {"session": step.running.key, "attempt": step.running.attempt}
        now = self.clock.monotonic()
        if step.problem is not None:
            self.log.warning("replay.changed", **fields, why=step.problem)
            self._let_be(target)
        elif answer is None:
            # Where nothing was read yet, there is nothing to render again.
            if target in self._followed and (step.more or step.fold.has_read):
                self._folds[target] = step.fold
            self._continue(target, step.running, trace, step.more)
        elif isinstance(answer, KeptAside):
            self.log.warning("replay.kept_aside", **fields, file=answer.name)
            self._put_off([target], now)
        elif isinstance(answer, Unreadable):
            self.log.warning("replay.delayed", **fields, why=answer.why)

    def _is_silent(self, running: RunningReplay, trace: _Quiet | None) -> bool:
        """Whether a native run called nothing yet: it has no trace, and no action has its result."""
        is_begun = running.begun is not None or running.actions > 0
        return not is_begun and running.layout == native.LAYOUT and trace is not None and trace.read is None

    def _continue(
        self, target: Target, running: RunningReplay, trace: _Quiet | None, more: bool = False
    ) -> None:
        """What it called is written: when to read further."""
        if more:
            self._put_off([target], self.clock.monotonic())
        elif target in self._reported:
            self._put_off([target], self.clock.monotonic() + PERIOD)
        elif running.layout != native.LAYOUT:
            self._let_be(target)
        elif trace is None:
            self._put_off([target], self.clock.monotonic() + PERIOD)
        elif target in self._followed:
            self._let_be(target)
            self._quiet[target] = trace
            # What called something just now is likely to call more.
            self._pass_at = min(self._pass_at, self.clock.monotonic() + PERIOD)

    def _let_go(self) -> None:
        """Forget the least recently used folds, to limit the memory used."""
        # In order of use: a dropped replay is rendered again when its session grows.
        held = sum(len(fold.replay.calls) + OVERHEAD for fold in self._folds.values())
        for target in list(self._folds):
            if held <= MOST_CALLS:
                return
            held -= len(self._folds.pop(target).replay.calls) + OVERHEAD

    def _render(
        self,
        recorded: Sequence[RunningReplay],
        stretches: Mapping[tuple[str, int], Stretch],
        targets: Mapping[str, Target],
    ) -> list[_Step]:
        """The next lines of each session, in a thread. The due times of the others are set here."""
        steps: list[_Step] = []
        rules_within: dict[tuple[str, str], BundleRules | None] = {}
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
                self._let_be(target)
                continue
            begun = running.begun
            rules = self._rules(running, rules_within) if begun is None else begun.rules
            if rules is None:
                self._let_be(target)  # until the settings change
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

    def _rules(
        self, running: RunningReplay, within: dict[tuple[str, str], BundleRules | None]
    ) -> BundleRules | None:
        """The rules for a new replay. Native runs that are beside each other have the same: no link is a run."""
        place = running.path.rpartition("/")[0] if running.layout == native.LAYOUT else running.path
        of = running.layout, place
        if of not in within:
            within[of] = self.bundled(BundleRulesOf(running.layout, running.path))
        return within[of]

    def _next(
        self, running: RunningReplay, stretch: Stretch, rules: BundleRules, target: Target
    ) -> _Step | None:
        """The next lines of a session; None if they can't be determined now."""
        root, state = self.roots.get(target[0]), _read_of(running)
        fold = self._folds.pop(target, None)
        if root is None or state is None:
            return None
        begun = running.begun
        # Another attempt, another daemon, or a pass that failed: what is in memory doesn't lead to what is recorded.
        if fold is None or not fold.continues(running):
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
