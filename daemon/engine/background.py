"""Background work: slow work that follows a verdict, such as hashing what was produced.

Verdicts and their journals come first: each step begins only when neither is in progress and the last verdict was a
moment ago, because one verdict is often followed by the next. If verdicts never pause, the steps are taken in the
gaps. Claimed jobs go through the same queue under their own token. A stop puts back the jobs that were not reached; a
crash leaves them to the next daemon.
"""

import math
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, Unpack

import anyio
import anyio.from_thread
import anyio.to_thread

from runward.daemon.engine.deciding import Arguments, Decider, Result
from runward.daemon.engine.part import is_due_first
from runward.daemon.engine.queue import Queue, StoreTrouble
from runward.daemon.log import Log
from runward.daemon.rundir.opening import Halted
from runward.daemon.store.batch import Claim, Job, JobResult, put_back
from runward.daemon.store.store import Store
from runward.daemon.store.tables import jobs as job_table
from runward.daemon.world.clock import Clock
from runward.handlers.model.events import OfFiles

GATHER: Final = 1.0
"""Seconds for which follow-up work of verdicts is gathered, so that few commits delay others."""

PATIENCE: Final = 30.0
"""Seconds of verdicts without a pause after which the work is done alongside them, until there is a pause."""

PAUSE: Final = 2.0
"""Seconds without verdicts in the way that are a pause. In a shorter gap some of the work is done, and the patience goes on."""

STEP: Final = 0.02
"""Seconds that each step still waits at most for a gap between verdicts, once the patience is over: twice `AT_ONCE`, so the work
gets about a third of the time. With a fiftieth, runs piled up whose bundles waited."""

BATCH: Final = 128
"""Jobs that are claimed and completed together: more than `MANY`, so that what a full batch wrote, and the names that its files
get, are synced with their whole file system and not one by one."""

AT_ONCE: Final = 0.01
"""Seconds of work in one go, after which verdicts are given way to again: one may have to wait for the interpreter that long."""

HOLDS: Final = 0.2
"""Seconds for which the store's answers to background jobs hold. Then the jobs that aren't decided yet ask anew."""

MANY_BYTES: Final = 64 << 20
"""Bytes from which on a batch takes no further job, so that small files don't wait for large ones."""

SLOW: Final = 2.0
"""A job that reads more than `jobs.LARGE` bytes, or reads for longer than `SLOW` (seconds), is put back, and done alone by
the one loop that does such jobs. So it never holds up others, whatever its event says about its size."""

MOST_LONG: Final = 10_000
"""Lanes of such jobs that are remembered."""

TROUBLED: Final = 2.0
"""Seconds after which what the store refused is tried again."""

_LOOK: Final = 0.02
"""Seconds between two checks for pending verdicts."""


def _set_event() -> anyio.Event:
    event = anyio.Event()
    event.set()
    return event


@dataclass(slots=True)
class Background:
    """Two loops that carry out background jobs, each in a thread. Only one of them does jobs that take long."""

    store: Store
    queue: Queue
    decider: Decider
    clock: Clock
    log: Log
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    expected_for: Callable[[], float]
    """Seconds for which more verdicts are likely, because there was one a moment ago."""
    report: Callable[[Sequence[JobResult]], Awaitable[None]]
    """Called with what is durable."""
    prepared: Callable[[Sequence[JobResult]], AbstractAsyncContextManager[Sequence[JobResult]]] = nullcontext
    """A context manager that gives what is completed in place of these results."""
    tell: Callable[[Sequence[JobResult], float], None] = lambda results, seconds: None
    """Logs what was completed, and how many seconds that took."""
    ended: anyio.Event = field(default_factory=_set_event)
    """Set while no loop runs."""
    batches: int = 0
    """How many batches were begun."""
    trouble: str | None = None
    """The store's last refusal."""
    _halted: anyio.Event = field(default_factory=anyio.Event)
    _waits_since: float = -math.inf
    """Since when verdicts have kept this work waiting without a pause (monotonic seconds)."""
    _held_at: float = -math.inf
    """When they last did (monotonic seconds)."""
    _lanes: set[str] = field(default_factory=set)
    """The lanes that a loop works on: the other one leaves them alone."""
    _long: set[str] = field(default_factory=set)
    """The lanes whose first job takes long. A new daemon finds out again, and so does this one if it forgot."""
    _claiming: anyio.Lock = field(default_factory=anyio.Lock)
    _threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))
    _woken: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.queue.wake_background = self.wake

    def degraded(self) -> list[str]:
        """What delays the work, for `status`."""
        return [] if self.trouble is None else [f"background work is postponed: {self.trouble}"]

    def wake(self) -> None:
        """There may be something to do."""
        woken, self._woken = self._woken, anyio.Event()
        woken.set()

    def halt(self) -> None:
        """End soon, even in the middle of a file. Unfinished claimed jobs are put back."""
        self._halted.set()
        self.wake()

    async def run(self) -> None:
        """Work until `halt`. If cancelled, claimed jobs are left to the next daemon."""
        self.ended = anyio.Event()
        try:
            async with anyio.create_task_group() as tasks:
                for does_long in (False, True):
                    tasks.start_soon(self._keep_on, does_long)
        finally:
            self.ended.set()

    async def drain(self) -> bool:
        """Carry out everything that is due now; returns whether there was anything."""
        before = self.batches
        async with anyio.create_task_group() as tasks:
            for does_long in (False, True):
                tasks.start_soon(self._drain, does_long)
        return self.batches > before

    async def next_due(self, after: float) -> float | None:
        """When the first job after this moment is due (both Unix seconds). Waits while the store is in trouble."""
        while not self._halted.is_set():
            try:
                return await self.queue.next_due_in_background(after)
            except sqlite3.Error as error:
                await self._put_off(str(error))
        return None

    async def _keep_on(self, does_long: bool) -> None:
        while not self._halted.is_set():
            woken, now = self._woken, self.clock.now()
            await self._drain(does_long)
            due = await self.next_due(now)
            await is_due_first(due, woken, self.clock)
            await self._pause(GATHER)

    async def _drain(self, does_long: bool) -> None:
        while not self._halted.is_set() and await self._batch(does_long):
            self.batches += 1

    async def _batch(self, does_long: bool) -> bool:
        """Carry out some of what is due; returns whether there was anything, or trouble that needs a retry."""
        await self._quiet()
        try:
            # Both loops would otherwise find the same jobs due, and claim from the same lane.
            async with self._claiming:
                jobs = await self._due(does_long)
                # Nothing is claimed any more once a stop began: it would only have to be put back.
                if not jobs or self._halted.is_set():
                    return False
                claim = await self.queue.put((), jobs)
                lanes = {job.lane for job in jobs}
                self._lanes |= lanes
        except (StoreTrouble, sqlite3.Error) as error:
            await self._put_off(str(error))
            return True
        try:
            results, took = await self._decide(claim.jobs)
            # A job that was put back because it takes long must stay among the long ones, or it would hold up
            # others again.
            self._long -= {each.job.lane for each in results if each.state != "waiting"}
            if await self._complete(claim, results):
                self.tell(results, took)
                self.trouble = None
        finally:
            self._lanes -= lanes
            # The other loop may have passed over these lanes, and would not look again by itself.
            self.wake()
        return True

    async def _due(self, does_long: bool) -> list[Job]:
        """The jobs of the next batch: one that takes long alone, or others."""
        if does_long:
            due = await self.queue.due_in_background(1, self._long, self._lanes, are_long=True)
            if due:
                self._note_long(due[0].lane)
                return due
        return _together(await self.queue.due_in_background(BATCH, self._long, self._lanes))

    def _note_long(self, lane: str) -> None:
        # A job that a person discards while it waits leaves its lane here. Those at work must stay: they would be put back.
        if len(self._long) >= MOST_LONG:
            self._long &= self._lanes
        self._long.add(lane)

    async def _decide(self, jobs: Sequence[Job]) -> tuple[list[JobResult], float]:
        """The results of the jobs, and the seconds that deciding took, without the waits in between."""
        results: list[JobResult] = []
        took, left = 0.0, jobs
        while left and not self._halted.is_set():
            # All of them together: each kind of question is one statement to the store, and not one for every few jobs.
            round_, asked_at = self.decider.begin(left), math.inf
            while not round_.is_over and not self._halted.is_set():
                await self._quiet()
                begin = self.clock.monotonic()
                asked_at = min(asked_at, begin)
                # What the store answered may have changed by now, for example if the next attempt has begun. At least
                # one job is decided each time.
                if begin - asked_at > HOLDS and round_.results():
                    break
                try:
                    await self.decider.finish(round_, self._in_thread, self._wait_out, AT_ONCE)
                except Halted:
                    break
                finally:
                    took += self.clock.monotonic() - begin
            results += round_.results()
            left = round_.undecided()
        return [*results, *map(put_back, left)], took

    async def _in_thread(
        self, function: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments
    ) -> Result:
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads)

    async def _wait_out(self, trouble: str) -> None:
        # Unfinished jobs go back to the queue, so the next daemon does them first and not only after it took
        # them back.
        if self._halted.is_set():
            raise Halted
        await self._put_off(trouble)

    async def _complete(self, claim: Claim, results: Sequence[JobResult]) -> bool:
        """Complete what was decided; returns whether it is durable. Trouble during a stop prevents that."""
        left = list(results)
        while left:
            completed, trouble = list[JobResult](), None
            try:
                # Receipts form one chain. The lock that this takes is held until they are durable, so no
                # other receipt can name the same predecessor.
                async with self.prepared(left) as prepared:
                    await self.queue.complete(claim, prepared, completed)
            except (StoreTrouble, sqlite3.Error) as error:
                trouble = str(error)
            done = {result.job.id for result in completed}
            left = [result for result in left if result.job.id not in done]
            await self.report(completed)
            if trouble is not None:
                if self._halted.is_set():
                    return False
                await self._put_off(trouble)
        return True

    def go_on(self, read: int) -> bool:
        """Called in the deciding thread, in the middle of a file: `read` bytes were read since the last call."""
        # A thread can't be cancelled from outside: it asks by itself, between two chunks.
        anyio.from_thread.check_cancelled()
        work = self.decider.at_work()
        if work is not None and work.job.lane not in self._long:
            work.read += read
            if work.read > job_table.LARGE or self.clock.monotonic() - work.since > SLOW:
                self._note_long(work.job.lane)
                # Put back at once: the loop for long work does it, and this thread is free for others.
                return False
        return not self._halted.is_set()

    async def give_way(self) -> None:
        """Called before each step of what follows from a job: while the loops run, verdicts go first."""
        if not self.ended.is_set():
            await self._quiet()

    async def _quiet(self) -> None:
        """Wait for a pause in the verdicts. If there is none for too long, wait for a gap between two of them."""
        begin = self.clock.monotonic()
        while not self._halted.is_set() and self._is_held_back():
            now = self.clock.monotonic()
            if now - self._held_at >= PAUSE:
                self._waits_since = now
            self._held_at = now
            # Under constant load there is no pause. Then gaps are used, so that bundles are late but never
            # stand still.
            patience = self._waits_since + PATIENCE - now
            if patience <= 0 and (not self.busy() or now - begin >= STEP):
                return
            # As long as the next verdict is expected, there is nothing to look for.
            await self._pause(max(_LOOK, min(self._expected_for(), patience)))

    def _is_held_back(self) -> bool:
        """Whether there is no pause."""
        return self.busy() or self._expected_for() > 0

    def _expected_for(self) -> float:
        # With `--once`, no further work is added.
        return 0.0 if self.ended.is_set() else self.expected_for()

    async def _put_off(self, trouble: str) -> None:
        self.log.warning("background.put_off", why=trouble)
        self.trouble = trouble
        await self._pause(TROUBLED)

    async def _pause(self, seconds: float) -> None:
        """Wait this long, unless it is time to end."""
        with anyio.move_on_after(seconds):
            await self._halted.wait()


def _together(due: Sequence[Job]) -> list[Job]:
    """The jobs of one batch: the first one, and those after it as long as they are small together."""
    chosen: list[Job] = []
    left = MANY_BYTES
    for job in due:
        left -= job.event.produced_bytes if isinstance(job.event, OfFiles) else 0
        if chosen and left < 0:
            break
        chosen.append(job)
    return chosen
