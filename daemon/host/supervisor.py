"""The daemon as a whole: its parts in one task group, started and stopped in order.

Start: lock, store, epoch, queue; then the watch; READY; then the first scan. Stop: no new turns, the outbox written and
synced, the store closed, the lock released.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from runward.config.problem import counted
from runward.config.settings import Settings, changed_keys, settings_to_json
from runward.config.table import DEFAULT
from runward.daemon import __version__
from runward.daemon.disk.epoch import HeldEpoch
from runward.daemon.engine.outbox import MANY_OWED
from runward.daemon.engine.part import is_due_first
from runward.daemon.engine.turn import StoppedInTrouble
from runward.daemon.host import systemd
from runward.daemon.host.assembly import Assembly, World
from runward.daemon.host.report import Report, Reporting, SettingsReport
from runward.daemon.log import Log
from runward.daemon.store.journals import STOPPED_CLEANLY
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import CommitUnknown
from runward.daemon.watch.hints import Why
from runward.daemon.world.clock import Clock, until_beat

SOON: Final = 10.0
"""`daemon --once` waits for what is due within this many seconds, settling and grace included."""

OWN_RUNS_PERIOD: Final = 0.25
"""Seconds between two looks at the runs that `daemon --once` waits for."""

LOW_DISK_PERIOD: Final = 1.0
"""Seconds between two looks at whether there is enough room on the disk again."""


class WorkingOnce:
    """Scans everything, then works until nothing is due within `SOON` seconds, or until `is_stopping`.

    If it `waits`, it continues until the runs that were begun here are judged.
    """

    def __init__(
        self, assembly: Assembly, clock: Clock, is_stopping: Callable[[], bool], waits: bool
    ) -> None:
        self._assembly = assembly
        self._clock = clock
        self._is_stopping = is_stopping
        assembly.begun_here = set() if waits else None
        # Schedules that become due meanwhile are left to the next daemon: this one works on what is due now.
        assembly.queue.horizon = clock.now()
        assembly.running_replays.patience, assembly.running_replays.share = 0.0, 0

    async def run(self) -> None:
        """Work; the store is taken over already."""
        assembly = self._assembly
        await assembly.rounds.check_roots()
        await assembly.rounds.scan()
        assembly.rounds.check_due()
        await assembly.schedules.carry_out()
        await assembly.changed_files.look_once()
        while not self._is_stopping():
            while await self._step():
                pass
            for part in assembly.parts:
                if part.is_owed:
                    await part.drain()
            if len(assembly.hints) or assembly.worker.findings or await assembly.background.drain():
                if assembly.worker.low_disk is not None:
                    await anyio.sleep(LOW_DISK_PERIOD)
                continue
            patience = await self._patience()
            if patience is None:
                if not self._is_waited_for():
                    break
                patience = OWN_RUNS_PERIOD
            await anyio.sleep(patience)
            await assembly.rounds.check_processes(doubted=True)
            await assembly.rounds.scan_doubtful()
            assembly.rounds.check_due()
            assembly.queue.may_be_due = True

    def _is_waited_for(self) -> bool:
        """Whether any run that was begun here is not over.

        All of them are looked at again, because nothing is watched.
        """
        going = [
            (name, place)
            for name, place in self._assembly.begun_here or ()
            if (root := self._assembly.roots.get(name)) is not None and place in root.open
        ]
        self._assembly.hints.add(going, Why.PROCESS)
        return bool(going)

    async def _step(self) -> bool:
        """Do some of what is waiting; returns whether there was anything."""
        if self._assembly.outbox.behind > MANY_OWED // 2:
            await self._assembly.outbox.carry_out()  # nothing else does it here, and a turn would wait for it
        return (
            await self._assembly.worker.turn()
            or await self._assembly.comparison.step()
            or await self._assembly.outbox.carry_out()
        )

    async def _patience(self) -> float | None:
        """How long to wait for what is due soon; None if nothing is."""
        if any(root.doubted for root in self._assembly.roots.values()):
            return 0.5
        now = self._clock.now()
        again = self._assembly.rounds.next_due(with_judged=False)
        if again is not None and again < SOON:
            return max(0.05, again)
        times = [await self._assembly.worker.next_due(), await self._assembly.background.next_due(now)]
        soon = [due - now for due in times if due is not None and due - now < SOON]
        if soon:
            return max(0.05, min(soon))
        waits = [
            each.next_try(SOON)
            for each in (self._assembly.outbox, self._assembly.starts, self._assembly.comparison)
        ]
        return min((wait for wait in waits if wait is not None), default=None)


REPORT_PERIOD: Final = 1.0
"""Seconds between two checks for news to report and for a successor."""

TURN_PATIENCE: Final = 4.0
"""Seconds that the current start or turn may still take once the daemon is asked to stop."""

PUTTING_BACK_PATIENCE: Final = 5.0
"""Seconds after that, during which background work puts back its claimed jobs."""

OWED_PATIENCE: Final = 8.0
"""Seconds after that, during which due work is still carried out. All this is within the bound of a stop."""


class SettingsNotTaken(Exception):
    """The store can't be written now, so the new settings can't come into force."""


class Supervisor:
    """One daemon over one state directory, whose lock its caller holds."""

    def __init__(
        self,
        state: Path | None,
        settings: Settings,
        world: World,
        store: Store,
        log: Log,
    ) -> None:
        self._state = state
        self._settings = settings
        self.settings_report = _told(settings, world.clock.now())
        self._world = world
        self._store = store
        self._log = log
        self.is_ready = False
        self.is_stopping = False
        self._going_on = anyio.CancelScope()
        self._putting_back = anyio.CancelScope()
        self._finishing = anyio.CancelScope(shield=True)
        self.begun = anyio.Event()
        """Set once the store is taken over and everything remembered."""
        self._held_epoch: HeldEpoch | None = None
        self.assembly = Assembly(state, settings, world, store, log)
        self.reporting = Reporting(
            state=state,
            since=world.clock.now(),
            store=store,
            queue=self.assembly.queue,
            worker=self.assembly.worker,
            verdicts=self.assembly.verdicts,
            coverage=self.assembly.coverage,
            roots=self.assembly.roots,
            settings=lambda: self.settings_report,
            troubles=(*self.assembly.degraded(), world.for_status.troubles),
            log=log,
            for_status=world.for_status,
        )

    @property
    def state_dir(self) -> str:
        """The state directory of the settings in force."""
        return self._settings.state_dir

    @property
    def low_disk(self) -> int:
        """Free bytes on the state directory's disk below which nothing new is accepted."""
        return self._settings.low_disk

    def note_refusal(self, problems: Sequence[str], store_fix: str | None = None) -> None:
        """Record why newer settings were refused; `store_fix` is what to do if the store was why, and not the settings."""
        now = self._world.clock.now()
        self.settings_report = replace(
            self.settings_report, refused_at=now, refused=tuple(problems), store_fix=store_fix
        )

    def note_room(self, low: str | None) -> None:
        """Record why there is too little space on the state directory's disk, or that there is enough again."""
        self.assembly.worker.low_disk = low
        self.assembly.wake()

    def stop(self) -> None:
        """End after the current start or turn.

        If something outside blocks that, end without it: the next daemon takes over the jobs that it had claimed. When
        called again, end as soon as no write is torn.
        """
        now, hurried, self.is_stopping = anyio.current_time(), self.is_stopping, True
        for phase, patience in (
            (self._going_on, TURN_PATIENCE),
            (self._putting_back, PUTTING_BACK_PATIENCE),
            (self._finishing, OWED_PATIENCE),
        ):
            phase.deadline = now + (0.0 if hurried else patience)
        systemd.stopping(self.doing())
        self.assembly.watch.stands.set()  # nobody waits for it any more
        self.assembly.worker.stopping.set()
        self.assembly.background.halt()
        self.assembly.wake()

    async def start(self) -> None:
        """Take the store over and remember what was in progress. Nobody else may write from here on."""
        # First in the database, then in the file: from the first on no transaction of an older daemon is accepted, from
        # the second on none of its lines. Both come before anything is written here.
        epoch = await self._store.take_over(self._world.processes.boot_id(), self._settings.state_dir)
        if self._state is not None:
            self._held_epoch = HeldEpoch(self._state, epoch, self._epoch_unreadable)
        await self.assembly.queue.start()
        await self.assembly.agents.begin()
        await self._use_roots(self._settings)
        owed_lines = await self.assembly.begin()
        self.begun.set()
        self._log.info(
            "started",
            version=__version__,
            pid=os.getpid(),
            epoch=epoch,
            after_clean_stop=self._store.after_clean_stop,
            stolen_jobs=self.assembly.queue.tally.stolen,
            owed_lines=owed_lines,
            retention_s=self._settings.retention,
        )

    def _epoch_unreadable(self, why: str | None) -> None:
        self._log.warning("epoch.unreadable", why=why)

    async def _use_roots(self, settings: Settings) -> None:
        await self.assembly.known_roots.use(settings)
        await self.assembly.rounds.learn_roots()

    async def reload(self, settings: Settings, is_asked: bool = True) -> None:
        """Continue under other settings; work in progress under the old ones is finished under the new ones.

        If nobody asked for it, and no value differs, no root is scanned again.

        Raises `SettingsNotTaken`, after which the old settings stay in force.
        """
        changed = changed_keys(self._settings, settings)
        is_due = is_asked or bool(changed)
        try:
            if is_due:
                await self._use_roots(settings)
        except (CommitUnknown, sqlite3.Error) as error:
            raise SettingsNotTaken(str(error)) from error
        # Only now: had the store refused the roots, the old settings would still be in force.
        self._settings = settings
        self.settings_report = _told(settings, self._world.clock.now())
        if is_due:
            self.assembly.use(settings)
        self._log.info(
            "reloaded",
            roots=[root.name for root in settings.roots],
            changed=changed,
            files=[path for path, _ in settings.files],
        )

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run the daemon until `stop`."""
        async with anyio.create_task_group() as tasks:
            with self._going_on:
                await self.start()
                await self._begin(tasks, ready)
                await self._work()
            # What it claimed and did not finish is put back, so the next daemon need not take it for a crash's.
            with self._putting_back:
                await self.assembly.background.ended.wait()
            # The other loops end first: the outbox's own would write the same lines at the same time.
            tasks.cancel_scope.cancel()
        await self._finish()

    async def _begin(self, tasks: TaskGroup, ready: Callable[[], None]) -> None:
        """Set up the watch, and then have all parts begin."""
        # The watch stands before the first scan: what changes in between is noticed twice, and never not at all.
        tasks.start_soon(self.assembly.watch.run)
        await self.assembly.watch.stands.wait()
        if self.is_stopping:
            return
        await self.reporting.tell()  # a client that sees READY must find the address
        self._log.info("ready", watched=self.assembly.coverage.watched, flat=self.assembly.coverage.flat)
        self.is_ready = True
        systemd.ready(self.doing())
        ready()
        for loop in (*self.assembly.loops(), self._report):
            tasks.start_soon(loop)

    async def once(self, waits: bool = True) -> None:
        """Scan everything, and work until nothing is due soon.

        If it `waits`, it continues until the runs that were begun here are judged.
        """
        once = WorkingOnce(self.assembly, self._world.clock, lambda: self.is_stopping, waits)
        with self._going_on:
            await self.start()
            await once.run()
        self._check_epoch()
        await self._finish()

    async def _work(self) -> None:
        try:
            while not self.is_stopping:
                # Made anew before the turn: a wake-up during it must be seen after it.
                self.assembly.woken = anyio.Event()
                if await self.assembly.worker.turn():
                    continue
                if len(self.assembly.hints) and self.assembly.worker.low_disk is None:
                    continue
                due = await self.assembly.worker.next_due()
                if await is_due_first(due, self.assembly.woken, self._world.clock):
                    self.assembly.due()
        except StoppedInTrouble as trouble:
            self._log.warning("stopped.in_trouble", why=str(trouble))

    async def _finish(self) -> None:
        """Write all due lines that can be written, sync them, and leave a clean store."""
        if not self.begun.is_set():
            return
        with self._finishing:
            while await self.assembly.outbox.carry_out():
                await anyio.lowlevel.checkpoint()  # nothing else here notices that the time is up
            await anyio.lowlevel.checkpoint()
            await self.assembly.outbox.sweep()
        # A daemon that doesn't know yet which journals to compare leaves that to the next one, as after a crash.
        if not self.assembly.comparison.listing:
            await self._stopped_cleanly()
        self._log.info("stopped", owed_lines=self.assembly.outbox.owed)

    async def _stopped_cleanly(self) -> None:
        """Tell the next daemon that nothing needs to be compared: the very last step of a stop."""
        try:
            await self._store.run([STOPPED_CLEANLY], "stop")
        except (CommitUnknown, sqlite3.Error) as error:
            self._log.warning("stop.not_recorded", why=str(error))

    async def _report(self) -> None:
        """Keep the report current, and end if another daemon took over, even when there is nothing to write."""
        while True:
            self._check_epoch()
            await self.reporting.tell()
            await anyio.sleep(until_beat(REPORT_PERIOD))

    def _check_epoch(self) -> None:
        if self._held_epoch is not None:
            self._held_epoch.check()

    def doing(self) -> str:
        """The current activity in one line, for anyone who looks at the unit."""
        if self.is_stopping:
            return "stopping: finishing the remaining work"
        troubles = self.report().degraded
        doing = f"watching {counted(len(self.assembly.roots), 'root', 'roots')}"
        return f"{doing}; degraded: {'; '.join(troubles)}" if troubles else doing

    def report(self) -> Report:
        """The daemon's current report about itself."""
        return self.reporting.report()


def _told(settings: Settings, since: float) -> SettingsReport:
    origin = {key: each for key, each in settings.origin.items() if each != DEFAULT}
    rules = tuple((rule.named_at.file, *(rule.named_at.place or (None, None))) for rule in settings.contracts)
    values = settings_to_json(settings)
    return SettingsReport(
        values=values, files=settings.files, since=since, absent=settings.absent, origin=origin, rules=rules
    )
