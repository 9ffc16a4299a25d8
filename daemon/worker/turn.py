"""One turn of the worker: look; put and claim; decide; apply and complete; pass the rest to the outbox.

A turn takes whatever is waiting, at most a batch, and never waits for more. Looking and deciding run in a thread.
Nothing is acknowledged or performed before its commit returned.
"""

import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread
import structlog

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.inbox.launches import kept_with, launch_in, launch_of
from runward.daemon.inbox.requests import load_request
from runward.daemon.inbox.spool import first_batch
from runward.daemon.looking.agents_in_runs import AgentsInRuns
from runward.daemon.looking.following import FEWER_BYTES, MOST_BYTES, Follower
from runward.daemon.looking.look import Looked, Looker
from runward.daemon.looking.places import known_places
from runward.daemon.ports.clock import Clock
from runward.daemon.ports.files import Files
from runward.daemon.ports.inbox import InboxFile
from runward.daemon.queue.queue import Claim, Completed, Observation, Queue, StoreTrouble
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cursors, events, launches, places, sessions
from runward.daemon.store.tables.jobs import JobResult
from runward.daemon.watch.coverage import Coverage
from runward.daemon.watch.hints import Hint, Hints, Target, Why
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.worker.deciding import Decider
from runward.daemon.worker.outbox import MANY_OWED, Outbox
from runward.daemon.worker.reactions import Reactions
from runward.handlers.facts import Launch
from runward.handlers.layouts import native
from runward.handlers.layouts.scanner import RecordedProcess

FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 15.0

ALONE_AFTER: Final = 10.0
"""Seconds without a look at a native run after which transcripts are read in large pieces."""
from runward.handlers.sessions.observe import dump_watched, forgotten

_OF_NATIVE: Final = f"{native.LAYOUT}:"


class StoppedInTrouble(Exception):
    """The daemon must end while the world keeps it from working. What it claimed is free at the next start."""


@dataclass(slots=True)
class Worker:
    """Everything a turn needs. `roots` is by name."""

    files: Files
    clock: Clock
    store: Store
    queue: Queue
    looker: Looker
    follower: Follower
    decider: Decider
    agents: AgentsInRuns
    hints: Hints
    outbox: Outbox
    coverage: Coverage
    log: structlog.typing.FilteringBoundLogger
    roots: dict[str, WatchedRoot]
    reactions: Reactions
    batch: int = 256
    doubt: Callable[[Iterable[str]], None] = lambda names: None
    """Called with roots that may contain the files of a session that are missing elsewhere."""
    opened: Callable[[Target, tuple[RecordedProcess, ...]], None] = lambda target, processes: None
    """Called with a session that runs, and its processes."""
    closed: Callable[[Target], None] = lambda target: None
    """Called with a session that was running and no longer is."""
    inbox_waits: bool = True
    low_disk: str | None = None
    """Why no run is looked at: there is too little room for what would have to be recorded. Requests still are."""
    trouble: str | None = None
    """What keeps the worker from working."""
    stopping: anyio.Event = field(default_factory=anyio.Event)
    """Set when the daemon is to end: trouble is no longer waited out."""
    findings: list[Observation] = field(default_factory=list)
    """What must be recorded although it comes from no directory and no inbox file."""
    _pause: float = FIRST_PAUSE
    _turning: bool = False
    _native_at: float = -math.inf

    @property
    def busy(self) -> bool:
        """Whether verdicts are in progress."""
        looks = self.low_disk is None and len(self.hints) > 0
        return self.trouble is None and (self._turning or looks)

    def degraded(self) -> list[str]:
        """What keeps verdicts from being recorded, for `status`."""
        trouble = self.queue.uncertain or self.trouble
        told = [] if trouble is None else [f"store: {trouble}"]
        return told if self.low_disk is None else [*told, self.low_disk]

    async def turn(self) -> bool:
        """Do what is waiting; returns whether there was anything. Waits while the world causes trouble.

        Raises `StoppedInTrouble`, and `EpochRefused` if another daemon has taken over.
        """
        hints = self.hints.take(self.batch) if self.low_disk is None else []
        inbox_waits, self.inbox_waits = self.inbox_waits, False
        self._turning = bool(hints)
        try:
            did = await self._turn(hints, inbox_waits)
        except (StoreTrouble, sqlite3.Error, OSError) as error:
            # What was not recorded is looked at again; what was claimed has been completed.
            self.hints.give_back(hints)
            self.inbox_waits = self.inbox_waits or inbox_waits
            await self._wait_out(str(error))
            return True
        finally:
            self._turning = False
        self._recovered()
        return did

    async def next_due(self) -> float | None:
        """When a waiting job is due next (Unix seconds). Waits while the world causes trouble."""
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
            self.log.error("store.trouble", why=why, fix="free space or repair the disk; it is retried")
        self.trouble = why
        with anyio.move_on_after(self._pause):
            await self.stopping.wait()
        if self.stopping.is_set():
            raise StoppedInTrouble(why)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)

    async def _turn(self, hints: Sequence[Hint], inbox_waits: bool) -> bool:
        due = await self.queue.due(self.batch - len(hints))
        if not hints and not inbox_waits and not due and not self.findings:
            return False
        while self.outbox.behind > MANY_OWED and not self.stopping.is_set():
            await self.outbox.less_owed()
        looked = await self._look(hints)
        requests = await self._requests() if inbox_waits or self.inbox_waits else []
        observed = [each for look in looked if (each := look.observation()) is not None]
        observed += [request for _, request in requests if request is not None]
        findings = self.findings[: self.batch]
        observed += findings
        refused = len(self.queue.tally.refused)
        claim = await self.queue.put(observed, due)
        if claim.trouble is None:
            del self.findings[: len(findings)]
        self._note(looked)
        for subject, why in self.queue.tally.refused[refused:]:
            self.log.error("observation.refused", subject=subject, why=why)
        trouble = claim.trouble or await self._clear(requests)
        await self._work(claim)
        if trouble is not None:
            raise StoreTrouble(trouble)
        return True

    async def _look(self, hints: Sequence[Hint]) -> list[Looked]:
        of_native = [each for each in hints if (root := self.roots.get(each[0][0])) and root.shape is None]
        looked: list[Looked] = []
        if of_native:
            self._native_at = self.clock.monotonic()
            names = [f"{root}/{name}" for (root, name), _ in of_native]
            remembered = await cursors.remembered(self.store, names)
            launched = await launches.last(self.store, [f"{_OF_NATIVE}{name}" for name in names])
            looked, is_long = await in_thread(self._look_at, of_native, remembered, launched)
            if any(look.is_forgotten for look in looked):
                looked = await self._look_anew(looked, of_native, remembered, launched)
            if is_long:  # a launch may be in what is not read yet, so nothing can be said of runs without one
                left = [
                    each for each in looked if f"{_OF_NATIVE}{each.root.name}/{each.place}" not in launched
                ]
                self.hints.add_to_backlog([(each.root.name, each.place) for each in left], Why.AGAIN)
                looked = [each for each in looked if each not in left]
        foreign = [each for each in hints if (root := self.roots.get(each[0][0])) and root.shape is not None]
        if foreign:
            looked += await self._follow(foreign)
        return looked

    async def _look_anew(
        self,
        looked: Sequence[Looked],
        hints: Sequence[Hint],
        remembered: Mapping[str, str],
        launches: Mapping[str, Launch],
    ) -> list[Looked]:
        """The looks. If what is remembered of a run can't be read, its look starts again from the record."""
        lost = {(look.root.name, look.place) for look in looked if look.is_forgotten}
        keys = {native.session_key(*target): "/".join(target) for target in lost}
        self.log.error(
            "cursors.unreadable", runs=sorted(keys.values()), fix="nothing: they are looked at again"
        )
        known = await sessions.known(self.store, keys)
        anew = {
            cursor: dump_watched(forgotten(known[key].attempt if key in known else 0))
            for key, cursor in keys.items()
        }
        again = [each for each in hints if each[0] in lost]
        found, _ = await in_thread(self._look_at, again, {**remembered, **anew}, launches)
        return [look for look in looked if not look.is_forgotten] + found

    def _look_at(
        self, hints: Sequence[Hint], remembered: Mapping[str, str], launches: Mapping[str, Launch]
    ) -> tuple[list[Looked], bool]:
        """The looks, and whether the inbox held more than is taken at once."""
        is_long = False

        def known() -> Mapping[str, Launch]:
            nonlocal is_long
            waiting = self.files.inbox()
            self.inbox_waits = self.inbox_waits or bool(waiting)
            is_long = is_long or len(waiting) > len(first_batch(waiting, self.batch))
            told = [event for file in waiting if (event := launch_in(file)) is not None]
            return {**launches, **{event.session_key: launch_of(event) for event in told}}

        looked = self._judged(self.looker.look(hints, self.roots, remembered, known))
        return looked, is_long

    def _judged(self, looked: Sequence[Looked]) -> list[Looked]:
        """The looks at places whose roots are still the same. The others are repeated when their roots are back."""
        away = {path for path in {look.root.path for look in looked} if self.files.away(path) is not None}
        return [look for look in looked if look.root.path not in away]

    async def _follow(self, hints: Sequence[Hint]) -> list[Looked]:
        """Looks at foreign sessions; those that were not reached wait again."""
        roots = dict(self.roots)  # other settings may arrive meanwhile
        known = await known_places(self.store, self.files, [target for target, _ in hints], roots)
        alone = self.clock.monotonic() - self._native_at > ALONE_AFTER
        most = MOST_BYTES if alone else FEWER_BYTES
        found = await in_thread(self.follower.look, hints, roots, known, most)
        found = found._replace(looked=await in_thread(self._judged, found.looked))
        self.hints.add_to_backlog([target for target, _ in found.left], Why.AGAIN)
        lost = {look.lost.partition(":")[0] for look in found.looked if look.lost is not None}
        self.doubt([root.name for root in self.roots.values() if any(root.may_hold(each) for each in lost)])
        gone = [f"{look.root.name}/{look.place}" for look in found.looked if look.mark is None]
        if gone:  # if a copy of a session exists, the session continues there
            self.hints.add(await places.beside(self.store, gone), Why.AGAIN)
        return found.looked

    async def _requests(self) -> list[tuple[InboxFile, Observation | None]]:
        """The inbox's requests that aren't recorded yet; None for those that are not requests."""
        found = await in_thread(self.files.inbox)
        known = await events.known_events(self.store, (file.name for file in found))
        requests: list[tuple[InboxFile, Observation | None]] = []
        batch = first_batch(found, self.batch)
        events_of = await in_thread(lambda: [load_request(file) for file in batch])
        for file, event in zip(batch, events_of, strict=True):
            if isinstance(event, str):
                self.log.error("inbox.rejected", file=file.name, owner=file.owner, why=event)
                requests.append((file, None))
            else:
                said = () if event is None or file.name in known else (event,)
                requests.append((file, Observation(file.name, said, kept_with(event))))
        self.inbox_waits = self.agents.inbox_is_long = len(found) > len(batch)
        return requests

    async def _clear(self, requests: Sequence[tuple[InboxFile, Observation | None]]) -> str | None:
        """Remove recorded requests from the inbox; if that fails, returns why, and they are met again."""

        def clear() -> None:
            for file, request in requests:
                self.files.clear(file.name, rejected=request is None)

        try:
            if requests:
                await anyio.to_thread.run_sync(clear)
        except OSError as error:
            return f"the inbox: {error.strerror}"
        return None

    def _note(self, looked: Sequence[Looked]) -> None:
        """Remember, after the commit, what was seen and which attempts are open."""
        for look in looked:
            root, name = look.root, look.place
            if look.mark is None:
                root.seen.pop(name, None)
            else:
                root.seen[name] = look.mark
            if look.phase == "open":
                root.open[name] = look.processes
                self.opened(
                    (root.name, name), look.processes[:1]
                )  # a launcher's end mostly coincides with its command's
            elif root.open.pop(name, None) is not None or (look.phase == "over" and look.events):
                self.closed((root.name, name))
            if look.doubted:
                root.doubted.add(name)
            else:
                root.doubted.discard(name)
            if look.unsettled and look.unreadable is None:
                root.unsettled.add(name)
            else:
                root.unsettled.discard(name)
            self.agents.known = self.agents.known or look.is_linked
            if look.more:
                self.hints.add_to_backlog([(root.name, name)], Why.AGAIN)
            if look.again_in is not None:
                root.due[name] = self.clock.monotonic() + look.again_in
            else:
                root.due.pop(name, None)
            if look.why == Why.SCAN and look.events:
                self.coverage.found_by_scan += len(look.events)
            if look.unreadable is not None:
                self.log.warning("run.unreadable", root=root.name, directory=name, why=look.unreadable)

    async def _work(self, claim: Claim) -> None:
        """Decide and complete the claimed jobs. Claimed jobs are always finished."""
        if not claim.jobs:
            return
        results = await self.decider.decide(claim.jobs, in_thread, self._wait_out)
        await self._complete(claim, results)

    async def _complete(self, claim: Claim, results: Sequence[JobResult]) -> None:
        left = list(results)
        while left:
            completed = Completed()
            try:
                await self.queue.complete(claim, left, completed)
            except (StoreTrouble, sqlite3.Error) as error:
                await self._wait_out(str(error))
            done = {result.job.id for result in completed.results}
            left = [result for result in left if result.job.id not in done]
            await self.report(completed)

    async def report(self, completed: Completed) -> None:
        """Have all parts react to what is durable now, and log what is not done."""
        for result in completed.results:
            if result.state != "done":
                self._report_trouble(result)
        await self.reactions.react(completed.results)

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
