"""The daemon as a whole: its parts in one task group, started and stopped in order.

Start: lock, store, epoch, queue; then the watch; READY; then the first scan. Stop: no new turns, the
outbox carried out and synced, the store closed, the lock let go.
"""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import structlog

from runward.config.settings import Settings
from runward.daemon import __version__
from runward.daemon.notify import notify
from runward.daemon.ports import Clock, EpochPassed, Files, Processes, Randomness
from runward.daemon.queue.queue import Observation, Queue
from runward.daemon.report import Report, RootReport, percentile, write_report
from runward.daemon.schedule.alarm import Alarm
from runward.daemon.store import queries
from runward.daemon.store.epoch import epoch_file, read_epoch, write_epoch
from runward.daemon.store.journals import STOPPED_CLEANLY
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import CommitUnknown, Statement
from runward.daemon.watch.coverage import Coverage
from runward.daemon.watch.hints import Hints, Target, Why
from runward.daemon.watch.notifications import CannotWatch, Notifications, Watching
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import Rounds
from runward.daemon.worker.background import Background
from runward.daemon.worker.comparison import Comparison
from runward.daemon.worker.deciding import Decider, Declared, Playable, Ruling, no_playbooks, no_rules
from runward.daemon.worker.look import Looker, recorded
from runward.daemon.worker.orders import CancelOrders
from runward.daemon.worker.outbox import Outbox
from runward.daemon.worker.starting import Starts
from runward.daemon.worker.turn import StoppedInTrouble, Worker
from runward.handlers.effects import StartRun
from runward.handlers.events import JournalDamaged
from runward.handlers.sessions.observe import load_watched

SOON: Final = 10.0
"""`daemon --once` waits for what is due within this many seconds, settling and grace included."""

REPORT_PERIOD: Final = 1.0

MANY_COMMITS: Final = 50
"""Commits after which memory is given back, once none came for a report's period."""

STOP_PATIENCE: Final = 5.0
"""Seconds that the turn that is going on may still take once the daemon is told to stop."""


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
        self._world = world
        self._store = store
        self._log = log
        self._make_alarm = make_alarm
        self._since = world.clock.now()
        self._wake = anyio.Event()
        self._watch_again = anyio.Event()
        self._stopping = False
        self._working = anyio.CancelScope()
        self._alarm_at: float | None = None
        self._epoch_file = (0, 0)
        self.give_memory_back: Callable[[], None] = lambda: None
        self.roots: dict[str, WatchedRoot] = {}
        self.coverage = Coverage()
        self.hints = Hints(self.wake)
        self.queue = Queue(store, world.clock, world.randomness)
        self.outbox = Outbox(world.files, store, world.clock, log)
        self.rounds = Rounds(
            world.files,
            world.processes,
            world.clock,
            self.hints,
            self.coverage,
            log,
            self.roots,
            settings.scan.period,
            self._have_watched_again,
            self._clock_stepped,
            self._inbox,
        )
        self.worker = Worker(
            world.files,
            world.clock,
            store,
            self.queue,
            Looker(world.files, world.processes, world.clock),
            Decider(world.files, world.clock, world.declared, world.ruled, world.playable),
            self.hints,
            self.outbox,
            self.coverage,
            log,
            self.roots,
            lambda: self.rounds.request_scan(everything=True),
            settings.batch,
        )
        self.outbox.busy = lambda: self.worker.busy
        self.orders = CancelOrders(world.files, world.processes, store, world.clock, log)
        self.worker.cancelled = self.orders.wake
        self.starts = Starts(world.processes, store, world.clock, log, self._run_begun)
        self.worker.ordered = self.starts.wake
        self.comparison = Comparison(
            world.files, store, world.clock, log, self.outbox, self._damaged, self.outbox.busy
        )
        self.worker.repaired = self.comparison.repaired
        self.background = Background(
            store,
            self.queue,
            Decider(world.files, world.clock, world.declared),
            world.clock,
            log,
            lambda: self.worker.busy or self.outbox.behind > 0,
            self.worker.report,
        )
        self.alarm = make_alarm(self._due)

    @property
    def state_dir(self) -> str:
        """The state directory of the settings in force."""
        return self._settings.state_dir

    def wake(self) -> None:
        """There is something to do."""
        self._wake.set()

    def stop(self) -> None:
        """End after the turn that is going on, or without it where the world keeps it from ending.

        What a turn had claimed then is taken back by the next daemon.
        """
        self._stopping = True
        self._working.deadline = anyio.current_time() + STOP_PATIENCE
        self.worker.stopping.set()
        self.background.halt()
        self._wake.set()

    async def start(self) -> None:
        """Take the store over and remember what was going on. Nobody else may write from here on."""
        epoch = await self._store.take_over(self._world.processes.boot_id())
        if self._state is not None:
            write_epoch(self._state, epoch)
            self._epoch_file = epoch_file(self._state)
        await self.queue.start()
        await self._set_roots(self._settings)
        await self.comparison.start()
        owed = await queries.owed_lines(self._store)
        self.outbox.add(owed)
        await self.starts.begin()
        await self.orders.begin()
        self._log.info(
            "started",
            version=__version__,
            pid=os.getpid(),
            epoch=epoch,
            after_clean_stop=self._store.after_clean_stop,
            stolen_jobs=self.queue.tally.stolen,
            owed_lines=len(owed),
        )

    async def _set_roots(self, settings: Settings) -> None:
        """Watch the roots of these settings, keeping what is known of those that stay."""
        now = self._world.clock.now()
        await self._store.run(
            [
                Statement(
                    queries.ROOT_SEEN, [(root.name, root.path, root.layout, now) for root in settings.roots]
                )
            ],
            "roots",
        )
        first_seen = await queries.roots_seen(self._store)
        open_cursors = await queries.open_cursors(self._store)
        wanted: dict[str, WatchedRoot] = {}
        for root in settings.roots:
            known = self.roots.get(root.name)
            if known is None or known.path != root.path:
                known = WatchedRoot(root.name, root.path, root.layout)
            known.records_history = root.history == "record"
            known.ignore = root.ignore
            known.first_seen_at = first_seen[root.name]
            wanted[root.name] = known
        self.roots.clear()
        self.roots.update(wanted)
        await self.rounds.learn_roots()
        for name, directory, text in open_cursors:
            if name in self.roots and directory not in self.roots[name].open:
                watched = load_watched(text)
                self.roots[name].open[directory] = recorded(watched)
                if watched.gone_since is not None:
                    self.roots[name].doubted.add(directory)

    async def reload(self, settings: Settings) -> None:
        """Go on under other settings; what the old ones had in hand is finished under the new ones.

        Raises `SettingsNotTaken`, after which the old ones hold.
        """
        try:
            await self._set_roots(settings)
        except (CommitUnknown, sqlite3.Error) as error:
            raise SettingsNotTaken(str(error)) from error
        self._settings = settings
        self.worker.batch = settings.batch
        self.rounds.period = settings.scan.period
        self._have_watched_again()
        self.rounds.request_scan(everything=True)
        self._log.info("reloaded", roots=[root.name for root in settings.roots])

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Be the daemon until `stop`."""
        await self.start()
        stands = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, stands)
            await stands.wait()
            self._log.info("ready", watched=self.coverage.watched, flat=self.coverage.flat)
            notify("READY=1", f"STATUS=watching {len(self.roots)} roots")
            ready()
            tasks.start_soon(self.rounds.run)
            tasks.start_soon(self.outbox.run)
            tasks.start_soon(self.orders.run)
            tasks.start_soon(self.starts.run)
            tasks.start_soon(self.comparison.run)
            tasks.start_soon(self.background.run)
            tasks.start_soon(self._report)
            try:
                await self._work()
            except StoppedInTrouble as trouble:
                self._log.warning("stopped.in_trouble", why=str(trouble))
            notify("STOPPING=1")
            with anyio.move_on_after(STOP_PATIENCE):
                await self.background.ended.wait()
            tasks.cancel_scope.cancel()
        await self._finish()

    async def once(self) -> None:
        """Scan everything, and work until nothing is due within `SOON` seconds."""
        await self.start()
        with self._working:
            await self.rounds.check_roots()
            await self.rounds.scan()
            while not self._stopping:
                while (
                    await self.worker.turn() or await self.comparison.step() or await self.outbox.carry_out()
                ):
                    pass
                await self.orders.carry_out()
                while await self.starts.carry_out():
                    pass
                if len(self.hints) or await self.background.drain():
                    continue
                patience = await self._patience()
                if patience is None:
                    break
                await anyio.sleep(patience)
                await self.rounds.check_processes(frozenset(self.roots), doubted=True)
                self.queue.may_be_due = True
        self._check_epoch()
        await self._finish()

    async def _patience(self) -> float | None:
        """How long to wait for what is due soon; None where nothing is."""
        if any(root.doubted for root in self.roots.values()):
            return 0.5
        now = self._world.clock.now()
        times = [await self.worker.next_due(), await self.background.next_due(now)]
        soon = [due - now for due in times if due is not None and due - now < SOON]
        if soon:
            return max(0.05, min(soon))
        waits = [each.next_try(SOON) for each in (self.outbox, self.starts, self.comparison)]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _work(self) -> None:
        with self._working:
            while not self._stopping:
                self._wake = anyio.Event()
                if await self.worker.turn():
                    continue
                if len(self.hints):
                    continue
                due = await self.worker.next_due()
                if due != self._alarm_at:
                    self._alarm_at = due
                    self.alarm.set(due)
                await self._wake.wait()

    async def _finish(self) -> None:
        """Carry out what is owed and can be, sync it, and leave a clean store."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(20):
            while await self.outbox.carry_out():
                pass
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

    async def _watch(self, stands: anyio.Event) -> None:
        """Keep a watch standing; set it up anew when roots come, go or change."""
        while True:
            self._watch_again = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_once, stands)
                await self._watch_again.wait()
                tasks.cancel_scope.cancel()

    async def _watch_once(self, stands: anyio.Event) -> None:
        def standing(watching: Watching) -> None:
            self.coverage.watched, self.coverage.flat = watching.watched, len(watching.flat)
            self.rounds.flat = set(watching.flat)
            if stands.is_set():
                # Whatever happened while there was no watch is found by a scan.
                self.rounds.request_scan()
            stands.set()

        roots = list(self.roots.values())
        while True:
            try:
                await self._world.notifications.watch(roots, standing, self._hint, self._inbox)
            except CannotWatch as error:
                self._log.error("watch.failed", why=str(error), mend="raise fs.inotify.max_user_instances")
                standing(Watching(0, tuple(root.name for root in roots)))
            await anyio.sleep(30)

    def _damaged(self, event: JournalDamaged) -> None:
        self.worker.findings.append(Observation(event.key, (event,)))
        self.wake()

    def _hint(self, targets: list[Target]) -> None:
        self.hints.add(targets, Why.WATCH)

    def _run_begun(self, order: StartRun) -> None:
        """A run that was ordered has begun: a look finds it, also where nothing is watched."""
        names = {root.path: root.name for root in self.roots.values()}
        if order.root in names:
            self.hints.add([(names[order.root], order.name)], Why.WATCH)

    def _inbox(self) -> None:
        self.worker.inbox_waits = True
        self.wake()

    def _due(self) -> None:
        self._alarm_at = None
        self.queue.may_be_due = True
        self.background.wake()
        self.wake()

    def _have_watched_again(self) -> None:
        self._watch_again.set()

    def _clock_stepped(self) -> None:
        self._due()

    async def _report(self) -> None:
        """Keep `status.json` true, at most once a second and only while something changes."""
        last: Report | None = None
        trimmed = seen = 0
        while True:
            self._check_epoch()
            commits = self._store.commits
            if commits - trimmed >= MANY_COMMITS and commits == seen:
                trimmed = commits
                await anyio.to_thread.run_sync(self.give_memory_back)
            seen = commits
            report = self.report()
            if report != last and self._state is not None:
                try:
                    await anyio.to_thread.run_sync(write_report, self._state, report)
                    last = report
                except OSError as error:
                    self._log.warning("report.not_written", why=error.strerror)
            await anyio.sleep(REPORT_PERIOD)

    def _check_epoch(self) -> None:
        """End a daemon that has nothing to write, too, if another one took the state directory over meanwhile."""
        if self._state is None:
            return
        try:
            current = read_epoch(self._state)
            replaced = epoch_file(self._state) != self._epoch_file
        except FileNotFoundError:
            raise EpochPassed(f"the state directory {self._state} was removed") from None
        except OSError as error:
            # Not readable is not over: every write finds out by itself.
            self._log.warning("epoch.unreadable", why=error.strerror)
            return
        if replaced:
            raise EpochPassed(f"the state directory {self._state} was replaced by another")
        if current != self._store.epoch:
            raise EpochPassed(
                f"another daemon took the state directory over: this one's epoch is {self._store.epoch},"
                f" now it is {current}"
            )

    def report(self) -> Report:
        """What this daemon says of itself now."""
        lags = sorted(self.worker.lag)
        degraded = self.outbox.degraded() + self.comparison.degraded()
        trouble = self.queue.uncertain or self.worker.trouble
        if trouble is not None:
            degraded.append(f"store: {trouble}")
        degraded += self.starts.degraded()
        if self.orders.trouble is not None:
            degraded.append(self.orders.trouble)
        if self.background.trouble is not None:
            degraded.append(f"work in the background is put off: {self.background.trouble}")
        degraded += [f"root {root.name}: {root.problem}" for root in self.roots.values() if root.problem]
        degraded += [
            f"root {name} is watched flat: running sessions are looked at every second"
            for name in sorted(self.rounds.flat)
        ]
        return Report(
            os.getpid(),
            self._store.epoch,
            __version__,
            self._since,
            Coverage(
                self.coverage.watched,
                self.coverage.flat,
                self.coverage.overflows,
                self.coverage.found_by_scan,
                self.coverage.last_scan_at,
                self.coverage.last_scan_s,
            ),
            percentile(lags, 0.5),
            percentile(lags, 0.99),
            self._store.fences_refused,
            self.queue.tally.stolen,
            degraded,
            [
                RootReport(root.name, root.path, root.layout, root.health, root.problem)
                for root in self.roots.values()
            ],
        )
