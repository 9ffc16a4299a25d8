"""One turn of the worker: look; put, decide and apply in one transaction; carry out what was decided.

A turn takes whatever is waiting, at most a batch, and never waits for more. Jobs that need files are decided in a thread
after that, and their results have a transaction of their own. What the store refuses is done again in single steps, to
find the part at fault. Nothing is acknowledged or performed before its commit returned.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

import anyio
import anyio.to_thread

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.deciding import Decider
from runward.daemon.engine.foreseeing import Foreseen
from runward.daemon.engine.outbox import MANY_OWED, Outbox
from runward.daemon.engine.part import Reactions
from runward.daemon.engine.queue import REFUSALS, Queue, StoreTrouble, Turned
from runward.daemon.engine.turn_transaction import Decided
from runward.daemon.inbox.requests import kept_with, load_request
from runward.daemon.inbox.spool import InboxFile, first_batch
from runward.daemon.log import Log
from runward.daemon.store.batch import Claim, Job, JobResult, Observation
from runward.daemon.store.store import Store
from runward.daemon.store.tables.events import known_events
from runward.daemon.store.transaction import fix_of_trouble
from runward.daemon.watch.hints import Hint, Hints
from runward.daemon.watch.looks import Looks
from runward.daemon.world.files import Files
from runward.handlers.model.events import Event

NOTHING_CLAIMED: Final = Claim("", ())

DUE_SHARE: Final = 4
"""The part of a batch, as its divisor, that is always left to jobs that are due."""

FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 15.0


class StoppedInTrouble(Exception):
    """The daemon must stop while something outside keeps it from working.

    The next daemon takes its claimed jobs over.
    """


@dataclass(slots=True)
class Worker:
    """Everything a turn needs."""

    files: Files
    store: Store
    queue: Queue
    looks: Looks
    decider: Decider
    hints: Hints
    outbox: Outbox
    log: Log
    reactions: Reactions
    batch: int = 256
    inbox_waits: bool = True
    low_disk: str | None = None
    """Why runs are not looked at: the disk has too little space to record the result. Requests are still processed."""
    trouble: str | None = None
    """What keeps the worker from working."""
    stopping: anyio.Event = field(default_factory=anyio.Event)
    """Set when the daemon is to end: trouble is no longer waited out."""
    findings: list[Observation] = field(default_factory=list)
    """What must be recorded but comes neither from a directory nor from an inbox file."""
    _pause: float = FIRST_PAUSE
    _turning: bool = False

    @property
    def busy(self) -> bool:
        """Whether verdicts are in progress."""
        looks = self.low_disk is None and len(self.hints) > 0
        return self.trouble is None and (self._turning or looks)

    def degraded(self) -> list[str]:
        """What keeps verdicts from being recorded, for `status`."""
        trouble = self.queue.uncertain or self.trouble
        problems = [] if trouble is None else [f"store: {trouble}"]
        return problems if self.low_disk is None else [*problems, self.low_disk]

    async def turn(self) -> bool:
        """Do what is waiting; returns whether there was anything. Waits while something outside prevents work.

        Raises `StoppedInTrouble`, and `EpochRefused` if another daemon has taken over.
        """
        # On a low disk nothing new is taken in. Requests and jobs that are due go on.
        hints = self.hints.take(self.batch) if self.low_disk is None else []
        # Reset before the look: a request that arrives during the turn sets it again, and isn't lost.
        inbox_waits, self.inbox_waits = self.inbox_waits, False
        self._turning = bool(hints)
        try:
            did = await self._turn(hints, inbox_waits)
        except (StoreTrouble, sqlite3.Error, OSError) as error:
            # What was not recorded is looked at again; what was claimed has been completed.
            self.hints.give_back(hints)
            self.inbox_waits = True
            await self._wait_out(str(error))
            return True
        finally:
            self._turning = False
        self._recovered()
        return did

    async def next_due(self) -> float | None:
        """When a waiting job is due next (Unix seconds). Waits while something outside prevents work."""
        while True:
            try:
                due = await self.queue.next_due()
            except sqlite3.Error as error:
                await self._wait_out(str(error))
            else:
                self._recovered()
                return due

    def _recovered(self) -> None:
        if self.trouble is not None:
            self.log.info("store.recovered")
            self.trouble, self._pause = None, FIRST_PAUSE

    async def _wait_out(self, why: str) -> None:
        if self.trouble != why:
            self.log.error("store.trouble", why=why, fix=f"{fix_of_trouble(why)}; it is retried")
        self.trouble = why
        with anyio.move_on_after(self._pause):
            await self.stopping.wait()
        # A stop must not wait for a disk. Claimed jobs stay claimed; the next daemon takes them back.
        if self.stopping.is_set():
            raise StoppedInTrouble(why)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)

    async def _turn(self, hints: Sequence[Hint], inbox_waits: bool) -> bool:
        # However many places are to be looked at, what is due has its share: timers, retries, and what a turn left behind.
        due = await self.queue.due(max(self.batch - len(hints), self.batch // DUE_SHARE, 1))
        if not hints and not inbox_waits and not due and not self.findings:
            return False
        # Verdicts may not outrun their journals without bound: the rows owed are in memory.
        while self.outbox.behind > MANY_OWED and not self.stopping.is_set():
            await self.outbox.less_owed()
        looked, requests_came = await self.looks.at(hints, self.batch)
        self.inbox_waits = self.inbox_waits or requests_came
        requests = await self._requests() if inbox_waits or self.inbox_waits else []
        observed = [each for look in looked if (each := look.observation()) is not None]
        observed += [request for _, request in requests if request is not None]
        findings = _first(self.findings, self.batch)
        observed += findings
        # After everything that the turn records was observed, so that no verdict knows less of files than it.
        foreseen = await self._foresee(observed)
        turned, claim, trouble = await self._record(observed, due, foreseen)
        # Otherwise some may not be recorded. They are put again; a known event changes nothing.
        if trouble is None:
            del self.findings[: len(findings)]
        # Only now, because a look whose events were not recorded must be repeated.
        self.looks.note(looked)
        # A request is removed after its event is durable. A crash in between leaves the file, and the event's
        # key makes the second reading harmless.
        trouble = trouble or await self._clear(requests)
        # What was claimed is worked on even in trouble, since nobody else would release it.
        unreported = await self._try_to_report(turned.completed)
        await self._finish(turned)
        await self._work(claim)
        if unreported is not None:
            raise unreported
        if trouble is not None:
            raise StoreTrouble(trouble)
        return True

    async def _foresee(self, observed: Sequence[Observation]) -> Foreseen:
        """Answer what verdicts will ask of files, so that they are decided in the transaction that records their ends."""
        events = (event for each in observed for event in each.events)
        foreseen = await self.decider.foresee(events, in_thread, self._wait_out)
        for why in foreseen.problems:
            self.log.error(
                "verdict.unforeseen", why=why, fix="report it; the verdict is decided without foresight"
            )
        return foreseen

    async def _record(
        self, observed: Sequence[Observation], due: Sequence[Job], foreseen: Foreseen
    ) -> tuple[Turned, Claim, str | None]:
        """The first commit: from here on a crash loses nothing.

        Returns what was done in it, what was only claimed, and why not everything could be recorded.
        """
        # Most looks find nothing new.
        observed = [each for each in observed if each.events or each.rows]
        if not observed and not due:
            return Turned(()), NOTHING_CLAIMED, None
        try:
            turned = await self.queue.turn(self.decider, observed, due, foreseen=foreseen)
            return turned, NOTHING_CLAIMED, None
        except REFUSALS as error:
            self.queue.tally.in_steps += 1
            self.log.debug("turn.in_steps", why=f"{type(error).__name__}: {error}")
        refused = len(self.queue.tally.refused)
        claim = await self.queue.put(observed, due)
        for subject, why in self.queue.tally.refused[refused:]:
            self.log.error("observation.refused", subject=subject, why=why)
        return Turned(()), claim, claim.trouble

    async def _finish(self, turned: Turned) -> None:
        """Decide the jobs that need files, and what follows from them. Claimed jobs are always finished."""
        unreported: sqlite3.Error | None = None
        while turned.undecided is not None:
            await self.decider.finish(turned.undecided, in_thread, self._wait_out)
            earlier = Decided(turned.claim, turned.undecided.results())
            try:
                turned = await self.queue.turn(self.decider, (), (), earlier)
            except REFUSALS as error:
                self.queue.tally.in_steps += 1
                self.log.debug("turn.in_steps", why=f"{type(error).__name__}: {error}")
                await self._complete(earlier.claim, earlier.results)
                break
            except (StoreTrouble, sqlite3.Error) as error:
                await self._wait_out(str(error))
                continue
            unreported = await self._try_to_report(turned.completed) or unreported
        if unreported is not None:
            raise unreported

    async def _requests(self) -> list[tuple[InboxFile, Observation | None]]:
        """The inbox's requests that aren't recorded yet; None for those that are not requests."""
        self.inbox_waits = False  # before it is listed: what comes meanwhile may be missing from the listing
        files = await in_thread(self.files.inbox)
        requests: list[tuple[InboxFile, Observation | None]] = []
        batch = first_batch(files, self.batch)
        events_of = await in_thread(lambda: [load_request(file) for file in batch])
        keys = [event.key for event in events_of if isinstance(event, Event)]
        # A file whose removal failed, or that a crash left, is recorded already, and a launcher announces its
        # launch twice. Put again, such an event would have the whole batch refused: its file is only cleared.
        known = set(await known_events(self.store, keys))
        for file, event in zip(batch, events_of, strict=True):
            if isinstance(event, str):
                self.log.error("inbox.rejected", file=file.name, owner=file.owner, why=event)
                requests.append((file, None))
            elif event is None or event.key in known:
                requests.append((file, Observation(file.name, ())))
            else:
                known.add(event.key)
                requests.append((file, Observation(file.name, (event,), kept_with(event))))
        self.looks.agents.inbox_is_long = len(files) > len(batch)
        self.inbox_waits = self.inbox_waits or self.looks.agents.inbox_is_long
        return requests

    async def _clear(self, requests: Sequence[tuple[InboxFile, Observation | None]]) -> str | None:
        """Remove recorded requests from the inbox. If that fails, returns why; they are then read again."""

        def clear() -> None:
            for file, request in requests:
                self.files.clear(file.name, rejected=request is None)

        try:
            if requests:
                await anyio.to_thread.run_sync(clear)
        except OSError as error:
            return f"the inbox: {error.strerror}"
        return None

    async def _work(self, claim: Claim) -> None:
        """Decide and complete the claimed jobs. Claimed jobs are always finished."""
        if not claim.jobs:
            return
        results = await self.decider.decide(claim.jobs, in_thread, self._wait_out)
        await self._complete(claim, results)

    async def _complete(self, claim: Claim, results: Sequence[JobResult]) -> None:
        left = list(results)
        unreported: sqlite3.Error | None = None
        while left:
            completed: list[JobResult] = []
            try:
                await self.queue.complete(claim, left, completed)
            except (StoreTrouble, sqlite3.Error) as error:
                await self._wait_out(str(error))
            done = {result.job.id for result in completed}
            # Part of the batch may be durable although the rest was refused. Only the rest is tried again.
            left = [result for result in left if result.job.id not in done]
            unreported = await self._try_to_report(completed) or unreported
        if unreported is not None:
            raise unreported

    async def _try_to_report(self, completed: Sequence[JobResult]) -> sqlite3.Error | None:
        """Report what is durable; returns why not all could react.

        That is raised only when the claimed jobs are finished: in this epoch, nobody else would release them, and jobs
        behind them in their lanes would overtake them.
        """
        try:
            await self.report(completed)
        except sqlite3.Error as error:
            return error
        return None

    async def report(self, completed: Sequence[JobResult]) -> None:
        """Have all parts react to what is durable now, and log the jobs that failed."""
        for result in completed:
            if result.state != "done":
                self._report_trouble(result)
        await self.reactions.react(completed)

    def _report_trouble(self, result: JobResult) -> None:
        job = result.job
        if result.state == "held":
            self.log.error(
                "job.held",
                job=job.id,
                handler=job.handler,
                lane=job.lane,
                error=result.error,
                fix=f"runward queue show {job.id}, then retry or discard it",
            )
        elif result.error is not None:
            self.log.warning("job.delayed", job=job.id, handler=job.handler, lane=job.lane, why=result.error)


def _first(findings: Sequence[Observation], most: int) -> list[Observation]:
    """The first of what was found, up to so many events: what is decided about them holds up all others."""
    behind = accumulate(max(1, len(each.events)) for each in findings)
    return [each for each, events in zip(findings, behind, strict=False) if events <= most] or list(
        findings[:1]
    )
