"""Putting, claiming and completing, each in its own transaction for a whole batch.

Every claim carries a token that is new for its turn. A job completes under the token that it was claimed with, and
every write checks the epoch. If the database refuses a batch, the batch is halved by lane until only the lane at fault
is left. Its failure becomes its job's next state.
"""

import math
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import anyio

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.clock_steps import ClockSteps
from runward.daemon.store import packing, pruning
from runward.daemon.store.batch import Batch, Job, JobResult, Observation, put_back
from runward.daemon.store.hash_chain import Head
from runward.daemon.store.store import Store
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables import events, jobs
from runward.daemon.store.transaction import CommitUnknown, Fenced, Statement
from runward.daemon.world.clock import Clock, Randomness
from runward.handlers.model.effects import Emit
from runward.handlers.route import in_background

_T = TypeVar("_T")

REFUSALS: Final = (
    Fenced,
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    ValueError,
    TypeError,
    OverflowError,
)
"""Errors that a wrong row always causes. Any other error comes from the environment and is retried."""


MANY: Final = 64
"""Events or results beyond which rows are made in a thread."""

PATIENCE: Final = 0.5
"""Seconds between questions to a store that doesn't answer whether a commit happened."""


class StoreTrouble(Exception):
    """The store can't write at the moment (busy, full, broken): retry the same later."""


class Claim(NamedTuple):
    """Jobs that this turn may carry out, in order, and the token that proves it.

    `trouble` says that not everything could be recorded: it must be observed again.
    """

    token: str
    jobs: tuple[Job, ...]
    trouble: str | None = None
    ahead: float = 0.0
    """By how much the wall clock was ahead of the machine's own, as far as was noted."""


@dataclass(slots=True)
class Tally:
    """What happened to the queue since this daemon started, for `status` and for proofs."""

    stolen: int = 0
    halved: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


async def _gently(add: Callable[[], None], count: int) -> None:
    """Add rows to a batch: many of them in a thread, because each takes up to 0.1 ms and the loop has others to serve."""
    if count > MANY:
        await in_thread(add)
    else:
        add()


class Queue:
    """The queue of one daemon: for the worker's turns, and for background work alongside them."""

    def __init__(self, store: Store, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._head: Head
        self._open: dict[str, int] = {}
        self._open_is_stale = False
        self._background_is_due = False
        self._foreground_is_due = False
        self.uncertain: str | None = None
        """Why it is unknown whether a commit happened, as long as it is."""
        self.steps = ClockSteps(store, clock, self._attempt)
        self._latest = math.inf
        self._stepped_back = False
        self._one_at_a_time = anyio.Lock(fast_acquire=True)
        """Held while rows are counted, put and completed, because the counters are in memory."""
        self.may_be_due = True
        self.horizon = math.inf
        """Schedules that are due after it (Unix seconds) are not followed."""
        self.wake_background: Callable[[], None] = lambda: None
        self.wake_foreground: Callable[[], None] = lambda: None
        """Called when there is something to do in the background."""
        self.tally = Tally()

    async def start(self) -> None:
        """Free what an earlier daemon had claimed, and find the ends of the tables."""
        # There are no leases: within an epoch only the worker that claimed a job releases it. Whatever is
        # `running` here was claimed in an older epoch, whose daemon can't commit any more.
        self.tally.stolen = await jobs.take_back(self._store, self._clock.now())
        await self.steps.start()
        self._head = await events.events_head(self._store)
        self._open = await jobs.open_lanes(self._store)
        self._open_is_stale = False

    async def due(self, limit: int) -> list[Job]:
        """Jobs that wait and may run now; a job whose event can't be read is held."""
        if not self.may_be_due or limit <= 0:
            return []
        async with self.steps.noted() as now:
            await self._in_order(now)
            due = await jobs.due_jobs(self._store, now, limit, self.horizon)
        await self._hold(due.broken, now)
        if not due.jobs and not due.broken:
            self.may_be_due = False
        return due.jobs

    async def due_in_background(
        self,
        limit: int,
        large: int,
        long: Iterable[str] = (),
        without: Iterable[str] = (),
        *,
        are_long: bool = False,
    ) -> list[Job]:
        """Jobs that may run now in the background, in none of the lanes `without`.

        They take long, or don't: those in the lanes `long`, and those that read more than `large` bytes.
        """
        async with self.steps.noted() as now:
            await self._in_order(now)
            due = await jobs.due_in_background(
                store=self._store,
                now=now,
                limit=limit,
                large=large,
                long=long,
                without=without,
                are_long=are_long,
            )
        await self._hold(due.broken, now)
        return due.jobs

    def _now(self, now: float) -> float:
        self._stepped_back = self._stepped_back or now < self._latest
        self._latest = now
        return now

    async def _in_order(self, now: float) -> None:
        """The jobs that may run at `now` (Unix seconds).

        After the clock was set back, no failed job waits for it to catch up.
        """
        self._now(now)
        if self._stepped_back:  # perhaps while no daemon ran
            await self._attempt([Statement(jobs.RETRY_NOW, [(now, now)])], "clock", _unknowable)
            self._stepped_back = False
            self.may_be_due = True
            self.wake_background()

    async def _hold(self, broken: Sequence[tuple[int, str]], now: float) -> None:
        """Hold the jobs whose event can't be read."""
        if broken:
            rows = [(error, now, number) for number, error in broken]
            await self._attempt([Statement(jobs.HOLD, rows)], "hold", _unknowable)

    async def next_due(self) -> float | None:
        """When a waiting job is due next (Unix seconds)."""
        # The counters are exact unless a held job was released. So an idle daemon asks the store nothing.
        if not self._open and not self._open_is_stale:
            return None  # nothing waits, so the store need not be read
        return await jobs.next_due(self._store, self.horizon)

    async def next_due_in_background(self, after: float) -> float | None:
        """When the first job in the background after this moment is due (both Unix seconds)."""
        return await jobs.next_due_in_background(self._store, after)

    async def put(self, observed: Sequence[Observation], due: Sequence[Job]) -> Claim:
        """Record what was observed and claim its jobs, together with those that are due.

        Raises `StoreTrouble`, after which nothing was recorded, and `EpochRefused`. What the database
        refuses for good is left out and kept in `tally.refused`.
        """
        # The token is new for each turn. So a commit whose result is unknown can be found out: only this
        # turn's rows carry it.
        token = self._randomness.token()
        mine: list[Job] = []
        trouble: str | None = None
        ahead = self.steps.ahead
        async with self._one_at_a_time:
            # A released job changed the lanes behind our counters' back, so they are counted again before
            # anything is claimed by them.
            if self._open_is_stale:
                self._open = await jobs.open_lanes(self._store)
                self._open_is_stale = False
            try:
                await self._unpack(observed)
                await self._reopen(observed)
                await self._put(observed, due, token, mine)
            except (StoreTrouble, sqlite3.Error) as error:
                if not mine:
                    raise
                # Part of the batch is durable and claimed. It must be worked on: nobody else would release it
                # in this epoch.
                trouble = str(error)
        return Claim(token, tuple(sorted(mine, key=lambda job: job.id)), trouble, ahead)

    async def _unpack(self, observed: Sequence[Observation]) -> None:
        """Restore the rows of packed sessions that have new facts. This changes nothing for readers."""
        lanes = {event.lane for each in observed for event in each.events}
        try:
            await self._unpack_all(lanes)
        except ValueError:
            # Together first, because that is one transaction; one by one only to find the session at fault.
            for lane in sorted(lanes):  # one that can't be read doesn't stop the others
                try:
                    await self._unpack_all([lane])
                except ValueError as error:
                    self.tally.refused.append((lane, str(error)))

    async def _unpack_all(self, lanes: Collection[str]) -> None:
        statements = await packing.unpacked(self._store, lanes) if lanes else []
        if statements:
            await self._attempt(statements, "unpack", _unknowable)

    async def _reopen(self, observed: Sequence[Observation]) -> None:
        """Restore the pruned sessions that a further attempt continues. This changes only those sessions."""
        statements = await pruning.reopened(
            self._store, (event for each in observed for event in each.events)
        )
        if statements:
            await self._attempt(statements, "reopen", _unknowable)

    async def beside(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Work on completed jobs, while nothing is put or completed and no commit is in doubt."""
        async with self._one_at_a_time:
            return await work()

    async def _put(
        self, observed: Sequence[Observation], due: Sequence[Job], token: str, mine: list[Job]
    ) -> None:
        batch = self._batch()
        claimed = Counter(job.lane for job in due)

        def blocked(lane: str) -> bool:
            # The jobs of `due` are claimed in the same transaction, so they don't block: they come before
            # what is added to their lane now.
            return self._open.get(lane, 0) > claimed[lane]

        def add() -> None:
            for each in observed:
                for event in each.events:
                    events.add_event(batch, event, token, blocked)
                for rows in each.rows:
                    batch.add(rows)

        await _gently(add, sum(len(each.events) for each in observed))
        statements = tables.statements(batch)
        if due:
            # Exact: if one of them isn't waiting any more, the whole transaction is undone, and nothing is
            # worked on twice.
            taken = [(token, self._store.epoch, job.id) for job in due]
            statements.append(Statement(jobs.CLAIM, taken, exact=True))
        if not statements:
            return
        try:
            await self._attempt(statements, "put", lambda: self._was_put(batch, due, token))
        except REFUSALS as error:
            await self._put_apart(observed, due, token, mine, error)
            return
        # Memory follows only after the commit: a refused batch must leave the head and the counters as they
        # were.
        self._head = batch.head
        for job in batch.waiting:
            self._opened(job.lane)
        for job in due:
            self._close(job.lane)
        self._wake()
        mine += [*due, *batch.jobs]

    async def _put_apart(
        self,
        observed: Sequence[Observation],
        due: Sequence[Job],
        token: str,
        mine: list[Job],
        error: Exception,
    ) -> None:
        """The database refused: leave known events out, then halve until only the one at fault is left."""
        known = await events.known_events(
            self._store, [event.key for each in observed for event in each.events]
        )
        if known:
            unknown = [
                Observation(
                    each.subject,
                    [event for event in each.events if event.key not in known],
                    each.rows,
                )
                for each in observed
            ]
            await self._put(unknown, due, token, mine)
        # Separately, because the jobs that are due must not suffer from what was observed.
        elif due and observed:
            await self._put((), due, token, mine)
            await self._put(observed, (), token, mine)
        elif len(observed) > 1:
            self.tally.halved += 1
            middle = len(observed) // 2
            await self._put(observed[:middle], (), token, mine)
            await self._put(observed[middle:], (), token, mine)
        # The claim alone was refused, so no observation is at fault, and nothing can be left out.
        elif due:
            raise error
        else:
            self.tally.refused.append((observed[0].subject, f"{type(error).__name__}: {error}"))

    async def complete(self, claim: Claim, results: Sequence[JobResult], completed: list[JobResult]) -> None:
        """Apply what was decided and complete the jobs under the claim's token.

        What is durable is added to `completed`, even if this raises `StoreTrouble`: the rest must be retried. Raises
        `EpochRefused` if another daemon has taken over.
        """
        async with self._one_at_a_time, self.steps.noted():
            # The clock was stepped since the claim. What was decided may mix times from before and after the
            # step, so it is decided again.
            if self.steps.ahead != claim.ahead:
                results = [put_back(result.job) for result in results]
            await self._complete(claim.token, results, completed)

    async def _complete(self, token: str, results: Sequence[JobResult], completed: list[JobResult]) -> None:
        if not results:
            return
        batch = self._batch()

        def add() -> None:
            for result in results:
                tables.add_result(batch, result, token)

        await _gently(add, len(results))
        try:
            await self._attempt(tables.statements(batch), "apply", lambda: self._was_applied(results, token))
        except REFUSALS as error:
            await self._complete_apart(token, results, completed, error)
            return
        self._head = batch.head
        self._settle(results, batch)
        completed += results

    async def _complete_apart(
        self, token: str, results: Sequence[JobResult], completed: list[JobResult], error: Exception
    ) -> None:
        known = await events.known_events(self._store, _emitted(results))
        if known:
            await self._complete(token, [_without(each, known) for each in results], completed)
            return
        # Halved by lane and not by job, because the jobs of one lane must be completed in order.
        lanes = list(dict.fromkeys(result.job.lane for result in results))
        if len(lanes) > 1:
            self.tally.halved += 1
            half = set(lanes[: len(lanes) // 2])
            await self._complete(token, [each for each in results if each.job.lane in half], completed)
            await self._complete(token, [each for each in results if each.job.lane not in half], completed)
            return
        first, *rest = results
        if rest:
            before = len(completed)
            await self._complete(token, [first], completed)
            # The first job was alone at fault if it is held now. Those behind it saw what it decided, so they
            # are decided again.
            if completed[before].state == "done":
                await self._complete(token, rest, completed)
            else:
                released = [JobResult(each.job, "waiting") for each in rest]
                await self._complete(token, released, completed)
            return
        # Even the plain failure was refused: this is not about what a handler decided.
        if first.state == "held":
            raise error
        reason = f"the store refused what was decided: {type(error).__name__}: {error}"
        await self._complete(token, [JobResult(first.job, "held", error=reason)], completed)

    def _batch(self) -> Batch:
        return Batch(self._head, self._store.epoch, self._now(self._clock.now()), self.steps.steady())

    def _settle(self, results: Sequence[JobResult], batch: Batch) -> None:
        # A batch counts for a lane only what still waits there; a completed job left the counter when it was
        # claimed.
        for result in results:
            if result.state in ("waiting", "held"):
                self._opened(result.job.lane)
        for job in batch.waiting:
            self._opened(job.lane)
        if batch.rung:
            self.may_be_due = True
        if batch.released:
            self.may_be_due = True
            self._open_is_stale = True
        self._background_is_due = self._background_is_due or bool(batch.released)
        self._wake()

    def _wake(self) -> None:
        """Wake the loops that have something to do."""
        if self._foreground_is_due:
            self._foreground_is_due = False
            self.wake_foreground()
        if self._background_is_due:
            self._background_is_due = False
            self.wake_background()

    def _opened(self, lane: str) -> None:
        """A job in this lane waits or is held."""
        if in_background(lane):
            self._background_is_due = True
        else:
            self._open[lane] = self._open.get(lane, 0) + 1
            self.may_be_due = self._foreground_is_due = True

    def _close(self, lane: str) -> None:
        left = self._open.get(lane, 0) - 1
        if left > 0:
            self._open[lane] = left
        else:
            self._open.pop(lane, None)

    async def _attempt(
        self, statements: Sequence[Statement], name: str, happened: Callable[[], Awaitable[bool]]
    ) -> None:
        """Run a transaction, resolve an uncertain commit, and raise `StoreTrouble` if the store can't write."""
        try:
            await self._store.run(statements, name)
        except CommitUnknown as error:
            if not await self._find_out(happened):
                raise StoreTrouble(str(error)) from error
        except REFUSALS:
            raise
        except sqlite3.Error as error:
            raise StoreTrouble(str(error)) from error

    async def _find_out(self, happened: Callable[[], Awaitable[bool]]) -> bool:
        """Whether a commit with an unknown result took place. Nothing can continue before that is known."""
        # Neither answer may be guessed: to repeat a commit that took place would do its work twice, to assume
        # one that didn't would lose it.
        while True:
            try:
                known = await happened()
            except sqlite3.Error as error:
                self.uncertain = str(error)
                await anyio.sleep(PATIENCE)
            else:
                self.uncertain = None
                return known

    async def _was_put(self, batch: Batch, due: Sequence[Job], token: str) -> bool:
        # Events move the head of the chain, and only this daemon appends to it.
        if batch.head.seq > self._head.seq:
            return await events.events_head(self._store) == batch.head
        states = await jobs.states_under(self._store, (job.id for job in due))
        # Without events, the claim's token on every job shows it: the transaction is all or nothing.
        return bool(due) and all(job.id in states and states[job.id][1] == token for job in due)

    async def _was_applied(self, results: Sequence[JobResult], token: str) -> bool:
        ids = [each.job.id for each in results]
        states = await jobs.states_under(self._store, ids)
        # A missing job was packed or pruned under a successor, whose epoch refuses the retry.
        return states.keys() >= set(ids) and all(states[each][1] != token for each in ids)


async def _unknowable() -> bool:
    """For work that can be done again without harm."""
    return False


def _emitted(results: Sequence[JobResult]) -> list[str]:
    return [effect.event.key for result in results for effect in result.effects if isinstance(effect, Emit)]


def _without(result: JobResult, known: frozenset[str]) -> JobResult:
    """The result without events that are already recorded: a second report is harmless."""
    effects = [each for each in result.effects if not (isinstance(each, Emit) and each.event.key in known)]
    return result._replace(effects=effects)
