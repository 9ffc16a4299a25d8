"""The daemon as a whole: its parts in one task group, started and stopped in order.

Start: lock, store, epoch, queue; then the watch; READY; then the first scan. Stop: no new turns, the
outbox carried out and synced, the store closed, the lock let go.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup

from runward.config.counting import counted
from runward.config.settings import Settings, settings_to_json
from runward.daemon import __version__
from runward.daemon.disk.epoch import HeldEpoch
from runward.daemon.host import notify
from runward.daemon.host.known_roots import KnownRoots
from runward.daemon.host.known_runs import KnownRuns
from runward.daemon.host.report import Report, SettingsReport
from runward.daemon.host.reporting import Reporting
from runward.daemon.host.root_identities import RootIdentities
from runward.daemon.ports.clock import Clock, Randomness
from runward.daemon.ports.files import Files
from runward.daemon.ports.processes import Processes
from runward.daemon.queue.queue import Observation, Queue
from runward.daemon.schedule.alarm import Alarm
from runward.daemon.schedule.schedules import Schedules
from runward.daemon.store import journals
from runward.daemon.store.journals import STOPPED_CLEANLY
from runward.daemon.store.store import Store
from runward.daemon.store.tables import journal_lines
from runward.daemon.store.tables.table import Rows
from runward.daemon.store.transaction import CommitUnknown
from runward.daemon.watch.coverage import Coverage
from runward.daemon.watch.exits import Exits
from runward.daemon.watch.hints import Hints, Target, Why
from runward.daemon.watch.keeping import WatchKeeping
from runward.daemon.watch.notifications import Notifications
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import Rounds
from runward.daemon.watch.watched_directories import WatchedDirectories
from runward.daemon.web.report import HttpReport
from runward.daemon.worker.agents_in_runs import AgentsInRuns
from runward.daemon.worker.answering import (
    NO_CHAINS,
    Bundled,
    Chains,
    Covering,
    Declared,
    Playable,
    Ruling,
    answers_of_the_world,
    no_bundles,
    no_playbooks,
    no_roots,
    no_rules,
)
from runward.daemon.worker.background import Background
from runward.daemon.worker.bundles import Bundles
from runward.daemon.worker.changed_files import ChangedFiles
from runward.daemon.worker.clock_trust import ClockTrust
from runward.daemon.worker.comparison import Comparison
from runward.daemon.worker.deciding import Answers, Decider
from runward.daemon.worker.following import Follower
from runward.daemon.worker.free_slots import FreeSlots
from runward.daemon.worker.hook_hints import HookHints
from runward.daemon.worker.look import Looker
from runward.daemon.worker.notices import NOBODY, Messenger, Notices
from runward.daemon.worker.orders import CancelOrders
from runward.daemon.worker.outbox import MANY_OWED, Outbox
from runward.daemon.worker.packing import Packer
from runward.daemon.worker.part import Part
from runward.daemon.worker.pruning import Pruner
from runward.daemon.worker.reactions import Reactions
from runward.daemon.worker.running_outcomes import RunningOutcomes
from runward.daemon.worker.starting import Starts
from runward.daemon.worker.turn import StoppedInTrouble, Worker
from runward.daemon.worker.verdicts import Verdicts
from runward.daemon.worker.worktrees import Worktrees
from runward.handlers.chains.events import EventOccurred, SlotOffered
from runward.handlers.effects import (
    AppendLines,
    EndAttempt,
    NoteHook,
    RepairJournal,
    ScanRoots,
    StartRun,
)
from runward.handlers.events import JournalDamaged
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.outcomes.events import OutcomesChanged
from runward.handlers.schedules.events import ScheduleChanged
from runward.handlers.starts.events import StartFailed

SOON: Final = 10.0
"""`daemon --once` waits for what is due within this many seconds, settling and grace included."""

OWN_RUNS_PERIOD: Final = 0.25
"""Seconds between two looks at the runs that `daemon --once` waits for."""

REPORT_PERIOD: Final = 1.0
"""Seconds between two looks at whether there is something new to tell, and whose time it is."""

TURN_PATIENCE: Final = 4.0
"""Seconds that the start or the turn that is going on may still take once the daemon is told to stop."""

PUTTING_BACK_PATIENCE: Final = 5.0
"""Seconds from then on, until which the background puts back what it claimed."""

OWED_PATIENCE: Final = 8.0
"""Seconds from then on, until which what is owed is still carried out. All this is within the bound of a stop."""


@dataclass(slots=True)
class World:
    """The four ports, and what else differs between a real daemon and a simulated one."""

    clock: Clock
    files: Files
    processes: Processes
    randomness: Randomness
    notifications: Notifications
    declared: Declared
    ruled: Ruling = no_rules
    playable: Playable = no_playbooks
    covering: Covering = no_roots
    chains: Chains = NO_CHAINS
    messenger: Messenger = NOBODY
    bundled: Bundled = no_bundles
    troubles: Callable[[], list[str]] = list
    """What is wrong with the operator's files, for `status`."""
    http: Callable[[], HttpReport | None] = lambda: None
    """Where it listens, for `status`."""
    directories: WatchedDirectories = field(default_factory=WatchedDirectories)
    """What the notifications watch beside the roots."""


class SettingsNotTaken(Exception):
    """The store can't be written now, so other settings can't come into force."""


class Supervisor:
    """One daemon over one state directory, which its caller holds the lock of."""

    def __init__(
        self,
        state: Path | None,
        settings: Settings,
        world: World,
        store: Store,
        log: structlog.typing.FilteringBoundLogger,
        make_alarm: Callable[[Callable[[], None]], Alarm],
    ) -> None:
        self._state = state
        self._settings = settings
        self.settings_report = _told(settings, world.clock.now())
        self._world = world
        self._store = store
        self._log = log
        self._wake = anyio.Event()
        self.is_ready = False
        self.is_stopping = False
        self._going_on = anyio.CancelScope()
        self._putting_back = anyio.CancelScope()
        self._finishing = anyio.CancelScope(shield=True)
        self.begun = anyio.Event()
        """Set once the store is taken over and everything remembered."""
        self._begun_here: set[Target] | None = None
        """The runs that were begun by a daemon that works once: it waits for them."""
        self._alarm_at: float | None = None
        self._held_epoch: HeldEpoch | None = None
        self.roots: dict[str, WatchedRoot] = {}
        self._known_roots = KnownRoots(store, world.clock, self.roots)
        self.coverage = Coverage()
        self.hints = Hints(self.wake)
        self.queue = Queue(store, world.clock, world.randomness)
        self.outbox = Outbox(world.files, store, world.clock, log, lambda: self.worker.busy)
        self.orders = CancelOrders(world.files, world.processes, store, world.clock, log)
        self.starts = Starts(
            world.processes, world.files, store, world.clock, log, self._run_begun, self._found
        )
        self.worktrees = Worktrees(world.processes, store, world.clock, log)
        self.notices = Notices(world.messenger, store, world.clock, log)
        self.free_slots = FreeSlots(store, world.clock, log, world.chains.steps_at_once, self._found)
        self.bundles = Bundles(
            world.files,
            store,
            world.clock,
            log,
            lambda read: self.background.go_on(read),
            lambda: self.worker.low_disk,
        )
        self.schedules = Schedules(store, world.clock, log, world.chains.schedules, self._found)
        self.comparison = Comparison(
            world.files, store, world.clock, log, self.outbox, self._found, self.outbox.busy
        )
        self.exits = Exits(world.processes, self.hints)
        self.rounds = self._make_rounds()
        self.watch = WatchKeeping(
            world.notifications, self.roots, self.rounds, self.hints, self.coverage, log
        )
        self.changed_files = ChangedFiles(
            *(store, world.clock, log, world.chains.watched_paths, self._file_changed, world.directories),
            *(self.watch.watch_again, lambda: self._settings.scan.period),
        )
        self.running_outcomes = RunningOutcomes(world.files, store, world.clock, log, self.roots, self._found)
        self.agents = AgentsInRuns(store, self.roots)
        self.verdicts = Verdicts(world.clock)
        decider = Decider(self._make_answers(), world.clock)
        self.worker = self._make_worker(decider)
        self.background = self._make_background(decider)
        self.packer = Packer(store, self.queue, world.clock, log, self._is_busy)
        self.pruner = Pruner(
            store,
            world.files,
            self.queue,
            world.clock,
            log,
            lambda: self._is_busy() or self.worker.inbox_waits,
            settings.retention,
            ClockTrust(state, world.clock),
        )
        self.parts: tuple[Part, ...] = (
            self.orders,
            self.starts,
            self.worktrees,
            self.free_slots,
            self.notices,
            self.bundles,
            self.schedules,
            self.changed_files,
            self.running_outcomes,
            self.pruner,
            self.packer,
        )
        self.reporting = self._make_reporting()
        self.alarm = make_alarm(self._due)
        self.queue.wake_foreground = self.wake

    def _make_rounds(self) -> Rounds:
        return Rounds(
            self._world.files,
            self._world.processes,
            self._world.clock,
            self.hints,
            self.coverage,
            self._log,
            self.roots,
            self._settings.scan.period,
            lambda: self.watch.watch_again(),
            self._due,
            self._inbox,
            KnownRuns(self._store, self._world.files).unchanged,
            RootIdentities(self._store, self._world.files).accept,
        )

    def _make_answers(self) -> Answers:
        world = self._world
        return answers_of_the_world(
            self._store,
            world.files,
            world.processes,
            self.agents,
            world.declared,
            world.ruled,
            world.playable,
            world.covering,
            world.chains,
            world.messenger,
            lambda read: self.background.go_on(read),
            world.bundled,
            self.bundles.draft,
        )

    def _make_worker(self, decider: Decider) -> Worker:
        return Worker(
            self._world.files,
            self._world.clock,
            self._store,
            self.queue,
            Looker(self._world.files, self._world.processes, self._world.clock),
            Follower(self._world.files, self._world.processes, self._world.clock),
            decider,
            self.agents,
            self.hints,
            self.outbox,
            self.coverage,
            self._log,
            self.roots,
            self._make_reactions(),
            self._settings.batch,
            doubt=self.rounds.doubt,
            opened=self._opened,
            closed=self._closed,
        )

    def _opened(self, target: Target, processes: tuple[RecordedProcess, ...]) -> None:
        """A session was looked at that goes on."""
        self.exits.watch(target, processes)
        self.running_outcomes.look(target)

    def _closed(self, target: Target) -> None:
        """A session is over, or gone."""
        self.exits.forget(target)
        self.running_outcomes.forget(target)

    def _make_reactions(self) -> Reactions:
        hooks = HookHints(self._store, self.hints, self.roots, self.agents)
        reactions = Reactions()
        reactions.to(AppendLines, lambda done: self.outbox.add(list(journal_lines.lines_of(done))))
        reactions.to(RepairJournal, self.comparison.repaired)
        reactions.to(ScanRoots, lambda done: self.rounds.request_scan(everything=True))
        reactions.to(EndAttempt, self.verdicts.react)
        reactions.wake(lambda: self.parts)
        reactions.to(NoteHook, hooks.look)
        reactions.then(NoteHook, hooks.look_again)
        return reactions

    def _make_background(self, decider: Decider) -> Background:
        return Background(
            self._store,
            self.queue,
            decider,
            self._world.clock,
            self._log,
            self._is_busy,
            self.worker.report,
            self.bundles.sealed,
        )

    def _is_busy(self) -> bool:
        """Whether verdicts, or their journals, are on their way."""
        return self.worker.busy or self.outbox.behind > 0

    def _make_reporting(self) -> Reporting:
        return Reporting(
            self._state,
            self._world.clock.now(),
            self._store,
            self.queue,
            self.worker,
            self.verdicts,
            self.coverage,
            self.roots,
            lambda: self.settings_report,
            (
                self.outbox.degraded,
                self.comparison.degraded,
                self.worker.degraded,
                *(part.degraded for part in self.parts),
                self.background.degraded,
                self.rounds.degraded,
                self._world.troubles,
            ),
            self._log,
            self._world.http,
        )

    @property
    def state_dir(self) -> str:
        """The state directory of the settings in force."""
        return self._settings.state_dir

    @property
    def low_disk(self) -> int:
        """Free bytes on the state directory's disk below which nothing new is taken in."""
        return self._settings.low_disk

    def note_refusal(self, problems: Sequence[str]) -> None:
        """Newer settings were refused, and why."""
        now = self._world.clock.now()
        self.settings_report = replace(self.settings_report, refused_at=now, refused=tuple(problems))

    def note_room(self, low: str | None) -> None:
        """There is too little room on the state directory's disk, and why; or there is enough again."""
        self.worker.low_disk = low
        self.wake()

    def wake(self) -> None:
        """There is something to do."""
        self._wake.set()

    def stop(self) -> None:
        """End after the start or the turn that is going on, or without it where the world keeps it from ending.

        What a turn had claimed then is taken back by the next daemon. Called again, end as soon as nothing is torn.
        """
        now, hurried, self.is_stopping = anyio.current_time(), self.is_stopping, True
        for phase, patience in (
            (self._going_on, TURN_PATIENCE),
            (self._putting_back, PUTTING_BACK_PATIENCE),
            (self._finishing, OWED_PATIENCE),
        ):
            phase.deadline = now + (0.0 if hurried else patience)
        notify.stopping(self.doing())
        self.watch.stands.set()  # nobody waits for it any more
        self.worker.stopping.set()
        self.background.halt()
        self._wake.set()

    async def start(self) -> None:
        """Take the store over and remember what was going on. Nobody else may write from here on."""
        epoch = await self._store.take_over(self._world.processes.boot_id())
        if self._state is not None:
            self._held_epoch = HeldEpoch(self._state, epoch, self._log)
        await self.queue.start()
        await self.agents.begin()
        await self._use_roots(self._settings)
        self.outbox.restored = await journals.is_restored(self._store)
        await self.comparison.start()
        owed = await journal_lines.owed(self._store)
        self.outbox.add(owed)
        for part in self.parts:
            await part.begin()
        self.begun.set()
        self._log.info(
            "started",
            version=__version__,
            pid=os.getpid(),
            epoch=epoch,
            after_clean_stop=self._store.after_clean_stop,
            stolen_jobs=self.queue.tally.stolen,
            owed_lines=len(owed),
            retention_s=self._settings.retention,
        )

    async def _use_roots(self, settings: Settings) -> None:
        await self._known_roots.use(settings)
        await self.rounds.learn_roots()

    async def reload(self, settings: Settings) -> None:
        """Go on under other settings; what the old ones had in hand is finished under the new ones.

        Raises `SettingsNotTaken`, after which the old settings stay in force.
        """
        try:
            await self._use_roots(settings)
        except (CommitUnknown, sqlite3.Error) as error:
            raise SettingsNotTaken(str(error)) from error
        self._settings = settings
        self.settings_report = _told(settings, self._world.clock.now())
        self.worker.batch = settings.batch
        self.rounds.period = settings.scan.period
        for part in self.parts:
            part.use(settings)
        self.watch.watch_again()
        self.rounds.request_scan(everything=True)
        self._log.info("reloaded", roots=[root.name for root in settings.roots])

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Be the daemon until `stop`."""
        async with anyio.create_task_group() as tasks:
            with self._going_on:
                await self.start()
                await self._begin(tasks, ready)
                await self._work()
            with self._putting_back:
                await self.background.ended.wait()
            tasks.cancel_scope.cancel()
        await self._finish()

    async def _begin(self, tasks: TaskGroup, ready: Callable[[], None]) -> None:
        """Watch, and then have all parts begin."""
        tasks.start_soon(self.watch.run)
        await self.watch.stands.wait()
        if self.is_stopping:
            return
        await self.reporting.tell()  # who hears that it is ready finds where it listens
        self._log.info("ready", watched=self.coverage.watched, flat=self.coverage.flat)
        self.is_ready = True
        notify.ready(self.doing())
        ready()
        for part in (
            self.exits.run,
            self.rounds.run,
            self.outbox.run,
            self.comparison.run,
            self.background.run,
            *(each.run for each in self.parts),
            self._report,
        ):
            tasks.start_soon(part)

    async def once(self, waits: bool = True) -> None:
        """Scan everything, and work until nothing is due within `SOON` seconds.

        If it `waits`, it goes on until the runs that were begun here are judged.
        """
        self._begun_here = set() if waits else None
        self.queue.horizon = self._world.clock.now()
        with self._going_on:
            await self.start()
            await self.rounds.check_roots()
            await self.rounds.scan()
            await self.schedules.carry_out()
            await self.changed_files.look_once()
            while not self.is_stopping:
                while await self._step():
                    pass
                for part in self.parts:
                    if part.is_owed:
                        await part.drain()
                if len(self.hints) or self.worker.findings or await self.background.drain():
                    if self.worker.low_disk is not None:
                        await anyio.sleep(REPORT_PERIOD)
                    continue
                patience = await self._patience()
                if patience is None:
                    if not self._is_waited_for():
                        break
                    patience = OWN_RUNS_PERIOD
                await anyio.sleep(patience)
                await self.rounds.check_processes(doubted=True)
                await self.rounds.scan_doubtful()
                self.rounds.check_due()
                self.queue.may_be_due = True
        self._check_epoch()
        await self._finish()

    def _is_waited_for(self) -> bool:
        """Whether a run that was begun here is not over; all of them are looked at again, for nothing is watched."""
        going = [
            (name, place)
            for name, place in self._begun_here or ()
            if (root := self.roots.get(name)) is not None and place in root.open
        ]
        self.hints.add(going, Why.PROCESS)
        return bool(going)

    async def _step(self) -> bool:
        """Do something of what is waiting; returns whether anything was."""
        if self.outbox.behind > MANY_OWED // 2:
            await self.outbox.carry_out()  # nobody else does it here, and a turn would wait for that
        return await self.worker.turn() or await self.comparison.step() or await self.outbox.carry_out()

    async def _patience(self) -> float | None:
        """How long to wait for what is due soon; None where nothing is."""
        if any(root.doubted for root in self.roots.values()):
            return 0.5
        now = self._world.clock.now()
        again = self.rounds.next_due()
        if again is not None and again < SOON:
            return max(0.05, again)
        times = [await self.worker.next_due(), await self.background.next_due(now)]
        soon = [due - now for due in times if due is not None and due - now < SOON]
        if soon:
            return max(0.05, min(soon))
        waits = [each.next_try(SOON) for each in (self.outbox, self.starts, self.comparison)]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _work(self) -> None:
        try:
            while not self.is_stopping:
                self._wake = anyio.Event()
                if await self.worker.turn():
                    continue
                if len(self.hints) and self.worker.low_disk is None:
                    continue
                due = await self.worker.next_due()
                if due != self._alarm_at:
                    self._alarm_at = due
                    self.alarm.set(due)
                await self._wake.wait()
        except StoppedInTrouble as trouble:
            self._log.warning("stopped.in_trouble", why=str(trouble))

    async def _finish(self) -> None:
        """Carry out what is owed and can be, sync it, and leave a clean store."""
        if not self.begun.is_set():
            return
        with self._finishing:
            while await self.outbox.carry_out():
                await anyio.lowlevel.checkpoint()  # nothing else in here notices that the time is over
            await anyio.lowlevel.checkpoint()
            await self.outbox.sweep()
        if not self.comparison.listing:
            await self._stopped_cleanly()
        self._log.info("stopped", owed_lines=self.outbox.owed)

    async def _stopped_cleanly(self) -> None:
        """Have the next daemon know that nothing needs to be compared: the very last thing of a stop."""
        try:
            await self._store.run([STOPPED_CLEANLY], "stop")
        except (CommitUnknown, sqlite3.Error) as error:
            self._log.warning("stop.not_recorded", why=str(error))

    def _found(
        self, event: JournalDamaged | StartFailed | ScheduleChanged | SlotOffered | OutcomesChanged
    ) -> None:
        """Something of ours found out a fact, which is recorded as any other."""
        self.worker.findings.append(Observation(event.key, (event,)))
        self.wake()

    def _file_changed(self, event: EventOccurred | None, rows: Sequence[Rows]) -> None:
        """A file that chains name changed, or what is watched did; what is kept of it goes with it."""
        subject = "watched files" if event is None else event.key
        self.worker.findings.append(Observation(subject, () if event is None else (event,), rows))
        self.wake()

    def _run_begun(self, order: StartRun) -> None:
        """A run that was ordered has begun: a look finds it, also where nothing is watched."""
        names = {root.path: root.name for root in self.roots.values()}
        if order.root in names:
            self.hints.add([(names[order.root], order.name)], Why.WATCH)
            if self._begun_here is not None:
                self._begun_here.add((names[order.root], order.name))

    def _inbox(self) -> None:
        self.worker.inbox_waits = True
        self.wake()

    def _due(self) -> None:
        self._alarm_at = None
        self.queue.may_be_due = True
        self.background.wake()
        self.wake()

    async def _report(self) -> None:
        """Keep what is told true, and end where another daemon took over, though there be nothing to write."""
        while True:
            self._check_epoch()
            await self.reporting.tell()
            await anyio.sleep(REPORT_PERIOD)

    def _check_epoch(self) -> None:
        if self._held_epoch is not None:
            self._held_epoch.check()

    def doing(self) -> str:
        """What it does now, in one line, for who looks at the unit."""
        if self.is_stopping:
            return "stopping: finishing what is owed"
        troubles = self.report().degraded
        said = f"watching {counted(len(self.roots), 'root', 'roots')}"
        return f"{said}; degraded: {'; '.join(troubles)}" if troubles else said

    def report(self) -> Report:
        """What this daemon says of itself now."""
        return self.reporting.report()


def _told(settings: Settings, since: float) -> SettingsReport:
    return SettingsReport(settings_to_json(settings), settings.files, since)
