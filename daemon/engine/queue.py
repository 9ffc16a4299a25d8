"""The queue: a whole turn in one transaction, or putting, claiming and completing in one of their own each.

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
from runward.daemon.engine.deciding import NOTHING_FORESEEN, Decider, Round
from runward.daemon.engine.foreseeing import Foreseen
from runward.daemon.engine.turn_transaction import Decided, TurnTransaction
from runward.daemon.store import due_jobs, packing, pruning
from runward.daemon.store.batch import Batch, Blocked, Claim, Job, JobResult, Observation, always, put_back
from runward.daemon.store.hash_chain import Head
from runward.daemon.store.store import Store, Transaction
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


class Turned(NamedTuple):
    """What a turn's transaction completed, and the jobs that it claimed because they need files."""

    completed: Sequence[JobResult]
    undecided: Round | None = None
    claim: Claim = Claim("", ())


@dataclass(slots=True)
class Tally:
    """What happened to the queue since this daemon started, for `status` and for proofs."""

    stolen: int = 0
    in_steps: int = 0
    """How many turns were not possible in one transaction."""
    halved: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


def _tell_durable(observed: Sequence[Observation]) -> None:
    for each in observed:
        if each.then is not None:
            each.then()


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
        self.uncertain: str | None = None
        """Why it is unknown whether a commit happened, as long as it is."""
        self.steps = ClockSteps(store, clock, self._run)
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
            due = await due_jobs.due_jobs(self._store, now, limit, self.horizon)
        await self._hold(due.broken, now)
        if not due.jobs and not due.broken:
            self.may_be_due = False
        return due.jobs

    async def due_in_background(
        self,
        limit: int,
        long: Iterable[str] = (),
        without: Iterable[str] = (),
        *,
        are_long: bool = False,
    ) -> list[Job]:
        """Jobs that may run now in the background, in none of the lanes `without`.

        They take long, or don't: those in the lanes `long`, and those that read more than `jobs.LARGE` bytes.
        """
        async with self.steps.noted() as now:
            await self._in_order(now)
            due = await due_jobs.due_in_background(
                store=self._store,
                now=now,
                limit=limit,
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
            await self._run([Statement(jobs.RETRY_NOW, [(now, now)])], "clock", _unknowable)
            self._stepped_back = False
            self.may_be_due = True
            self.wake_background()

    async def _hold(self, broken: Sequence[tuple[int, str]], now: float) -> None:
        """Hold the jobs whose event can't be read."""
        if broken:
            rows = [(error, now, number) for number, error in broken]
            await self._run([Statement(jobs.HOLD, rows)], "hold", _unknowable)

    async def next_due(self) -> float | None:
        """When a waiting job is due next (Unix seconds)."""
        # The counters are exact unless a held job was released. So an idle daemon asks the store nothing.
        if not self._open and not self._open_is_stale:
            return None  # nothing waits, so the store need not be read
        return await due_jobs.next_due(self._store, self.horizon)

    async def next_due_in_background(self, after: float) -> float | None:
        """When the first job in the background after this moment is due (both Unix seconds)."""
        return await due_jobs.next_due_in_background(self._store, after)

    async def turn(
        self,
        decider: Decider,
        observed: Sequence[Observation],
        due: Sequence[Job],
        earlier: Decided | None = None,
        foreseen: Foreseen = NOTHING_FORESEEN,
    ) -> Turned:
        """Record what was observed and what was decided `earlier`, decide on what follows, and record that: all or nothing.

        What was `foreseen` is what jobs may know of files inside the transaction.
        Raises `StoreTrouble`, `sqlite3.Error` and one of `REFUSALS`, after which nothing was recorded, and
        `EpochRefused`.
        """
        # The token is new for each turn. So a commit whose result is unknown can be found out: only this
        # turn's rows carry it.
        token = self._randomness.token()
        async with self._one_at_a_time, self.steps.noted():
            if self._open_is_stale:
                await self._count_open()
            # The clock was stepped since the claim. What was decided may mix times from before and after the
            # step, so it is decided again.
            if earlier is not None and self.steps.ahead != earlier.claim.ahead:
                earlier = earlier._replace(results=[put_back(each.job) for each in earlier.results])
            turn = TurnTransaction(
                decider=decider,
                clock=self._clock,
                token=token,
                head=self._head,
                new_batch=self._batch,
                open_before=self._open,
                foreseen=foreseen,
            )

            async def happened() -> bool:
                if turn.head.seq > self._head.seq:
                    return await events.events_head(self._store) == turn.head
                if due:
                    return await self._was_done(due, turn)
                return earlier is not None and await self._was_applied(earlier.results, earlier.claim.token)

            def work(transaction: Transaction) -> None:
                turn.work(transaction, observed, due, earlier)

            if earlier is None:
                await self._attempt(work, "turn", happened)
            else:
                await self._attempt(work, "finish", happened)
            self._head = turn.head
            for lane, more in turn.opened.items():
                if not in_background(lane):
                    self._open_more(lane, more)
            self._note_new(turn.completed, turn.waiting, is_rung=turn.rung, is_released=turn.released)
            _tell_durable(observed)
            undecided = () if turn.undecided is None else tuple(turn.undecided.jobs)
            claim = Claim(token, undecided, ahead=self.steps.ahead)
        return Turned(turn.completed, turn.undecided, claim)

    async def _count_open(self) -> None:
        # A released job changed the lanes behind our counters' back, so they are counted again before
        # anything is claimed by them.
        self._open = await jobs.open_lanes(self._store)
        self._open_is_stale = False

    async def put(self, observed: Sequence[Observation], due: Sequence[Job]) -> Claim:
        """Record what was observed and claim its jobs, together with those that are due.

        Raises `StoreTrouble`, after which nothing was recorded, and `EpochRefused`. What the database
        refuses for good is left out and kept in `tally.refused`.
        """
        token = self._randomness.token()
        mine: list[Job] = []
        trouble: str | None = None
        ahead = self.steps.ahead
        async with self._one_at_a_time:
            if self._open_is_stale:
                await self._count_open()
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
            await self._run(statements, "unpack", _unknowable)

    async def _reopen(self, observed: Sequence[Observation]) -> None:
        """Restore the pruned sessions that a further attempt continues. This changes only those sessions."""
        statements = await pruning.reopened(
            self._store, (event for each in observed for event in each.events)
        )
        if statements:
            await self._run(statements, "reopen", _unknowable)

    async def beside(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Work on completed jobs, while nothing is put or completed and no commit is in doubt."""
        async with self._one_at_a_time:
            return await work()

    async def _put(
        self, observed: Sequence[Observation], due: Sequence[Job], token: str, mine: list[Job]
    ) -> None:
        claimed = Counter(job.lane for job in due)

        def blocked(lane: str, last: int) -> bool:
            # The jobs of `due` are claimed in the same transaction, so they don't block: they come before
            # what is added to their lane now.
            return self._open.get(lane, 0) > claimed[lane]

        batch = self._batch(self._head, blocked)

        def add() -> None:
            for each in observed:
                for event in each.events:
                    events.add_event(batch, event)
                for rows in each.rows:
                    batch.add(rows)
            for job in batch.claimed:
                jobs.keep_claimed(batch, job, token)
            for job in due:
                jobs.claim_due(batch, job, token)

        await _gently(add, sum(len(each.events) for each in observed))
        statements = tables.statements(batch)
        if not statements:
            return
        try:
            await self._run(statements, "put", lambda: self._was_put(batch, due, token))
        except REFUSALS as error:
            await self._put_apart(observed, due, token, mine, error)
            return
        # Memory follows only after the commit: a refused batch must leave the head and the counters as they
        # were.
        self._head = batch.head
        for job in due:
            self._open_more(job.lane, -1)
        for job in batch.waiting:
            self._open_more(job.lane, 1)
        self._note_new((), batch.waiting)
        mine += [*due, *batch.claimed]
        _tell_durable(observed)

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
                each._replace(events=[event for event in each.events if event.key not in known])
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
        # The turn that decided this may be working on other jobs of a lane, so every new job waits.
        batch = self._batch(self._head)

        def add() -> None:
            for result in results:
                jobs.finish_claimed(batch, result, token)
                tables.apply_result(batch, result)

        await _gently(add, len(results))
        try:
            await self._run(tables.statements(batch), "apply", lambda: self._was_applied(results, token))
        except REFUSALS as error:
            await self._complete_apart(token, results, completed, error)
            return
        self._head = batch.head
        # A batch counts for a lane only what still waits there; a completed job left the counter when it was
        # claimed.
        for job in (*(each.job for each in results if each.state in ("waiting", "held")), *batch.waiting):
            self._open_more(job.lane, 1)
        self._note_new(results, batch.waiting, is_rung=batch.rung, is_released=batch.released)
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

    def _batch(self, head: Head, blocked: Blocked = always) -> Batch:
        return Batch(head, self._store.epoch, self._now(self._clock.now()), self.steps.steady(), blocked)

    def _note_new(
        self,
        results: Sequence[JobResult],
        waiting: Sequence[Job],
        *,
        is_rung: bool = False,
        is_released: bool = False,
    ) -> None:
        """What is durable now may have left something to do: wake the loops that do it."""
        back = [each.job for each in results if each.state in ("waiting", "held")]
        in_back = [in_background(job.lane) for job in (*back, *waiting)]
        if is_released:
            self._open_is_stale = True
        if is_released or is_rung or not all(in_back):
            self.may_be_due = True
        if not all(in_back):
            self.wake_foreground()
        if is_released or any(in_back):
            self.wake_background()

    def _open_more(self, lane: str, more: int) -> None:
        """So many more jobs of this lane wait or are held."""
        if in_background(lane):
            return
        waiting = self._open.get(lane, 0) + more
        if waiting > 0:
            self._open[lane] = waiting
        else:
            self._open.pop(lane, None)

    async def _run(
        self, statements: Sequence[Statement], name: str, happened: Callable[[], Awaitable[bool]]
    ) -> None:
        await self._attempt(lambda transaction: transaction.write(statements), name, happened)

    async def _attempt(
        self, work: Callable[[Transaction], None], name: str, happened: Callable[[], Awaitable[bool]]
    ) -> None:
        """Run a transaction, resolve an uncertain commit, and raise `StoreTrouble` if the store can't write."""
        try:
            await self._store.transact(work, name)
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
        return bool(due) and await self._has_token(due, token)

    async def _has_token(self, due: Sequence[Job], token: str) -> bool:
        # Without events, the turn's token on every job shows it: the transaction is all or nothing.
        standings = await jobs.standings(self._store, (job.id for job in due))
        return all(job.id in standings and standings[job.id].token == token for job in due)

    async def _was_done(self, due: Sequence[Job], turn: TurnTransaction) -> bool:
        """Whether a transaction that recorded no events, but the results of these jobs, took place."""
        results = {each.job.id: each for each in turn.completed}
        claimed = [job for job in due if job.id not in results]
        if claimed:
            return await self._has_token(claimed, turn.token)
        # A job that waits as before tells nothing. If no other one was due, the turn is repeated without harm.
        changed = [
            each
            for each in results.values()
            if (each.state, jobs.tries_after(each)) != ("waiting", each.job.tries)
        ]
        standings = await jobs.standings(self._store, (each.job.id for each in changed))
        return bool(changed) and all(
            each.job.id in standings
            and (standings[each.job.id].state, standings[each.job.id].tries)
            == (each.state, jobs.tries_after(each))
            for each in changed
        )

    async def _was_applied(self, results: Sequence[JobResult], token: str) -> bool:
        ids = [each.job.id for each in results]
        standings = await jobs.standings(self._store, ids)
        # A missing job was packed or pruned under a successor, whose epoch refuses the retry.
        return standings.keys() >= set(ids) and all(standings[each].token != token for each in ids)


async def _unknowable() -> bool:
    """For work that can be done again without harm."""
    return False


def _emitted(results: Sequence[JobResult]) -> list[str]:
    return [effect.event.key for result in results for effect in result.effects if isinstance(effect, Emit)]


def _without(result: JobResult, known: frozenset[str]) -> JobResult:
    """The result without events that are already recorded: a second report is harmless."""
    effects = [each for each in result.effects if not (isinstance(each, Emit) and each.event.key in known)]
    return result._replace(effects=effects)
