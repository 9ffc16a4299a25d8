"""The real daemon: a supervisor over the real world, holding a state directory's lock."""

import asyncio
import gc
import math
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.configuration.checked_chains import CheckedChains
from runward.daemon.configuration.declaration_check import DeclarationCheck
from runward.daemon.configuration.declarations import Declarer
from runward.daemon.configuration.settings_files import Look, SettingsFiles
from runward.daemon.disk.epoch import EpochPassed
from runward.daemon.host import systemd
from runward.daemon.host.assembly import World
from runward.daemon.host.metrics_file import MetricsFile
from runward.daemon.host.report import ForStatus
from runward.daemon.host.signals import Signals
from runward.daemon.host.supervisor import SettingsNotTaken, Supervisor
from runward.daemon.host.systemd import Watchdog
from runward.daemon.host.upkeep import Room, Upkeep, giver_back, use_one_arena
from runward.daemon.inbox.spool import INBOX
from runward.daemon.log import Log, Sinks
from runward.daemon.parts.actions_with_code import ActionsWithCode, CodeTrouble, Work
from runward.daemon.parts.answering import InForce
from runward.daemon.parts.drafting_elsewhere import DraftingElsewhere
from runward.daemon.store import reading
from runward.daemon.store.connection import connect
from runward.daemon.store.ownership import hold, prepare
from runward.daemon.store.reading import STORE
from runward.daemon.store.schema import forget_empty, migrate, refuse_strange
from runward.daemon.store.store import Checkpointer, Store
from runward.daemon.store.tables.notices import PendingNotice
from runward.daemon.store.tables.replays import told_actions_in
from runward.daemon.store.transaction import EpochRefused, fix_of_trouble, malformed_is_told
from runward.daemon.watch.notifications import Inotify
from runward.daemon.web.child_server import StudioSocket
from runward.daemon.web.sockets import HttpReport
from runward.daemon.world.clock import SystemClock, SystemRandomness, until_beat
from runward.daemon.world.files import Files
from runward.daemon.world.messenger import SettingsMessenger, no_link
from runward.daemon.world.starting import StartingProcesses
from runward.handlers.exchange.reading import ActedWithCode, Unable, Worked
from runward.handlers.schedules import PATIENCE

if TYPE_CHECKING:
    from runward.daemon.host.fleet_reports import FleetReports
    from runward.daemon.web.listener import Listener
    from runward.handlers.model.fleet import Offer, OffersOf

_THEN: Final = "the daemon takes them over by itself, and until then the old settings stay in force"

MIGRATION: Final = 600.0
"""Seconds that a start may take to upgrade the store of an older version, including its copy."""

LOOK_PERIOD: Final = 2.0
"""Seconds between two looks at the settings files. What two looks saw unchanged is not being written any more."""


async def serve(
    settings: Settings,
    log: Log,
    sinks: Sinks,
    settings_files: SettingsFiles,
    signals: Signals,
    once: bool = False,
    waits: bool = True,
) -> None:
    """Run the daemon of `settings.state_dir` until it is asked to stop; with `once`, until nothing is due.

    If it `waits`, `once` also continues until the runs that it started are over.

    Raises `StateDirectoryUnsafe`, `StateDirectoryHeld`, `StoreRefused`, `EpochRefused` or `EpochPassed` (a successor
    took over), `StoreMalformed`, `CannotListen`, and `OSError` or `sqlite3.Error` if the state directory can't be used.
    """
    try:
        await _serve(
            settings=settings,
            log=log,
            sinks=sinks,
            settings_files=settings_files,
            signals=signals,
            once=once,
            waits=waits,
        )
    except BaseExceptionGroup as group:
        cause = _cause(group)
        if isinstance(cause, EpochRefused | EpochPassed):
            log.error(
                "superseded", why=str(cause), fix="nothing is lost: the daemon that took over continues"
            )
        raise cause from group


def _cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What ended the task group."""
    leaves: list[BaseException] = []
    for each in group.exceptions:
        leaves.append(_cause(each) if isinstance(each, BaseExceptionGroup) else each)
    # Whatever else failed, a successor that took over is the reason: its epoch makes every write fail.
    return next((each for each in leaves if isinstance(each, EpochRefused | EpochPassed)), leaves[0])


async def _serve(
    settings: Settings,
    log: Log,
    sinks: Sinks,
    settings_files: SettingsFiles,
    signals: Signals,
    once: bool,
    waits: bool,
) -> None:
    use_one_arena()
    state = Path(settings.state_dir)
    prepare(state)
    _make_own_roots(settings)
    with ExitStack() as stack:
        # The lock comes first and goes last: whatever is below is done by one daemon at a time.
        stack.callback(hold(state).release)
        # A migration of a large store may take longer than the unit allows for a start.
        systemd.extend(MIGRATION)
        with malformed_is_told():
            refuse_strange(state / STORE, migrate(state / STORE))
            forget_empty()
        declarer = Declarer(settings, math.inf if once else PATIENCE, CheckedChains(state))
        listener = None if once else stack.enter_context(_listener(state, declarer, log))
        studio = StudioSocket(state, lambda: declarer.settings, log)
        metrics_file = MetricsFile(state, lambda: declarer.settings, log)
        inotify = _inotify(settings, state)
        store = Store(await connect(state / STORE))
        fleet = Fleet(state, lambda: declarer.settings, store, log)
        try:
            processes = stack.enter_context(closing(StartingProcesses(state)))
            elsewhere = stack.enter_context(closing(DraftingElsewhere(state)))
            world = _world(
                state=state,
                declarer=declarer,
                processes=processes,
                elsewhere=elsewhere,
                inotify=inotify,
                listener=listener,
                studio=studio,
                metrics_file=metrics_file,
                fleet=fleet,
            )
            supervisor = Supervisor(state, settings, world, store, log)
            supervisor.assembly.verdicts.tell = sinks.add
            fleet.busy = supervisor.assembly.is_busy
            checkpointer = stack.enter_context(closing(Checkpointer(state / STORE)))
            give_memory_back = giver_back()
            _collect_rarely()
            # What only the start needed: the schema was compared, and modules were compiled and read.
            give_memory_back()
            async with anyio.create_task_group() as tasks:
                obedience = Obedience(
                    supervisor=supervisor,
                    declarer=declarer,
                    listener=listener,
                    studio=studio,
                    metrics_file=metrics_file,
                    fleet=fleet,
                    inotify=inotify,
                    log=log,
                    settings_files=settings_files,
                )
                # Only now: a stop that came earlier is carried out here, in order.
                signals.obey(asyncio.get_running_loop(), log, obedience.stop, obedience.reload)
                tasks.start_soon(obedience.run)
                if listener is not None:
                    await tasks.start(listener.run)
                if not once:
                    await tasks.start(studio.run)
                    tasks.start_soon(metrics_file.run)
                    tasks.start_soon(fleet.run)
                room = Room(state, lambda: supervisor.low_disk, supervisor.note_room, log)
                # Before the first look at a run, so that a daemon on a full disk takes nothing in.
                await room.look()
                tasks.start_soon(room.run)
                if not once:
                    tasks.start_soon(DeclarationCheck(declarer, log).run)
                    from runward.daemon.host.attention import Attention  # it shares the views of commands

                    attention = Attention(
                        state, lambda: declarer.settings, store, lambda: supervisor.reporting.changes, log
                    )
                    tasks.start_soon(attention.run)
                tasks.start_soon(Upkeep(store, checkpointer, give_memory_back, log).run)
                if systemd.is_asked() and not once:
                    tasks.start_soon(Watchdog(store, inotify.seen, supervisor, log).run)
                await (supervisor.once(waits) if once else supervisor.run())
                # The supervisor has ended in order. What still runs only serves it.
                tasks.cancel_scope.cancel()
        finally:
            # After all tasks: each of them may still write while it ends.
            await store.close()


def _inotify(settings: Settings, state: Path) -> Inotify:
    watch = settings.watch
    return Inotify(state / INBOX, watch.step, watch.debounce, watch.limit_share, settings.scan.period)


def _listener(state: Path, declarer: Declarer, log: Log) -> AbstractContextManager["Listener | None"]:
    """The listener; None if the settings don't configure one. Raises `CannotListen` and `OSError`."""
    http = declarer.settings.http
    if http is None:
        return nullcontext()
    from runward.daemon.web.listener import Listener  # imports a server and its framework, which few need

    return Listener(state, http, lambda: declarer.settings, log)


def _world(
    state: Path,
    declarer: Declarer,
    processes: StartingProcesses,
    elsewhere: DraftingElsewhere,
    inotify: Inotify,
    listener: "Listener | None",
    studio: StudioSocket,
    metrics_file: MetricsFile,
    fleet: "Fleet",
) -> World:
    """The real world."""
    of_code = CodeTrouble()
    degraded = [
        declarer.degraded,
        of_code.degraded,
        studio.degraded,
        metrics_file.degraded,
        fleet.degraded,
    ]
    messenger = SettingsMessenger(
        declarer.notified,
        no_link if listener is None else listener.links.of_notice,
        declarer.redacted,
        partial(_cost, declarer),
    )
    http = _nowhere if listener is None else listener.report
    if listener is not None:
        degraded.append(listener.degraded)
    return World(
        clock=SystemClock(),
        files=Files(state),
        processes=processes,
        randomness=SystemRandomness(),
        notifications=inotify,
        in_force=InForce(
            declared=declarer,
            ruled=declarer.ruled,
            playable=declarer.play,
            covering=declarer.covering,
            chains=declarer,
            messenger=messenger,
            bundled=declarer.bundled,
            estimated=partial(_estimate, declarer),
            exchange=declarer.exchange,
            fleet=declarer.fleet,
            offers=partial(_offers, declarer, state),
            heard=fleet.is_heard,
            with_code=ActionsWithCode(
                _acting(declarer, state, of_code),
                lambda: declarer.executor().workers,
            ),
        ),
        actions=partial(told_actions_in, state),
        elsewhere=elsewhere,
        quarantined=declarer.quarantined,
        directories=inotify.directories,
        for_status=ForStatus(
            troubles=lambda: [why for each in degraded for why in each()],
            wrong=lambda: declarer.wrong,
            http=http,
            killed=of_code.killed.report,
            studio=studio.report,
        ),
        before_the_first_turn=fleet.begin,
        tell_other_hosts=fleet.hint,
    )


def _offers(declarer: Declarer, state: Path, asked: "OffersOf") -> "tuple[Offer, ...]":
    if declarer.fleet() is None:
        return ()
    from runward.daemon.configuration.offers import offers_of  # few hosts are in a fleet

    return offers_of(state, asked.kind, asked.name)


def _acting(declarer: Declarer, state: Path, trouble: CodeTrouble) -> Work:
    lock = threading.Lock()

    @cache
    def begun() -> Work:
        from runward.daemon.host.acting_with_code import acting_with_code  # few daemons run code

        return acting_with_code(declarer.exchange, declarer.executor, state, trouble)

    def work(asked: ActedWithCode) -> Worked | Unable:
        with lock:
            begun_work = begun()
        return begun_work(asked)

    return work


def _cost(declarer: Declarer, notice: PendingNotice) -> str | None:
    """What the session cost that a notice is about; None if that is not known. For threads."""
    from runward.daemon.views.rows import cost_of  # it may load the prices of a library

    return _priced(declarer, cost_of, notice.subject.rpartition("#")[0])


def _estimate(declarer: Declarer, key: str) -> str | None:
    """What a session cost at list prices; None if that is not known. For threads."""
    from runward.daemon.views.usage import estimate_of  # it may load the prices of a library

    return _priced(declarer, estimate_of, key)


def _priced(
    declarer: Declarer, ask: Callable[[sqlite3.Connection, Settings, str], str | None], key: str
) -> str | None:
    settings = declarer.settings
    try:
        with reading.reading(settings.state_dir) as connection:
            return ask(connection, settings, key)
    except reading.StoreUnreadable:
        return None


def _nowhere() -> HttpReport | None:
    return None


def _collect_rarely() -> None:
    """Exclude what was imported from garbage collection, and collect only after many allocations.

    A batch makes tens of thousands of short-lived values and next to no cycles: collecting as often as Python does by
    default costs a tenth of the time of a verdict.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _make_own_roots(settings: Settings) -> None:
    """Make the roots inside the state directory; other roots are made by their owners."""
    for root in settings.roots:
        if root.path.startswith(settings.state_dir + "/"):
            Path(root.path).mkdir(mode=0o700, parents=True, exist_ok=True)


def _listen(settings: Settings) -> tuple[str, ...]:
    """Where a daemon with these settings listens."""
    return () if settings.http is None else settings.http.listen


class Fleet:
    """What this host reports to its fleet. Nothing of that is imported before the settings have one."""

    def __init__(self, state: Path, settings: Callable[[], Settings], store: Store, log: Log) -> None:
        self._state, self._settings, self._store, self._log = state, settings, store, log
        self._reports: FleetReports | None = None
        self._begun = anyio.Event()
        self._wanted = anyio.Event()
        self.busy: Callable[[], bool] = bool
        """Whether verdicts are in progress."""

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        return [] if self._reports is None else self._reports.degraded()

    def is_heard(self, event: str) -> bool:
        """Whether another host accepts events of this name from this one."""
        return self._reports is not None and self._reports.is_heard(event)

    def hint(self) -> None:
        """Another host waits for something that is durable now."""
        if self._reports is not None:
            self._reports.hint()

    def use_settings(self) -> None:
        """Other settings are in force."""
        if self._reports is not None:
            self._reports.use_settings()
        elif self._settings().fleet is not None:
            self._wanted.set()

    async def begin(self) -> None:
        """Before anything is recorded: from then on, note what is owed. Raises what the store raises."""
        if self._settings().fleet is not None:
            await self._made().begin()
        self._begun.set()

    async def run(self) -> None:
        """Report until cancelled."""
        await self._begun.wait()
        if self._reports is None:
            await self._wanted.wait()
        await self._made().run()

    def _made(self) -> "FleetReports":
        from runward.daemon.host.fleet_reports import FleetReports

        if self._reports is None:
            self._reports = FleetReports(
                self._state, self._settings, self._store, SystemClock(), self.busy, self._log
            )
        return self._reports


@dataclass(slots=True)
class Obedience:
    """How the daemon reacts to signals, and to changed settings files: it stops, or reads its settings again.

    Invalid settings change nothing. They are shown until the files change again.
    """

    supervisor: Supervisor
    declarer: Declarer
    listener: "Listener | None"
    studio: StudioSocket
    metrics_file: MetricsFile
    fleet: Fleet
    inotify: Inotify
    log: Log
    settings_files: SettingsFiles
    _listen: tuple[str, ...] = field(init=False)
    _wanted: anyio.Event = field(default_factory=anyio.Event, init=False)

    def __post_init__(self) -> None:
        self._listen = _listen(self.declarer.settings)

    def stop(self, name: str) -> None:
        """React to a signal to stop; each further signal makes the stop quicker."""
        self.log.info("stopping", signal=name)
        if self.listener is not None:
            self.listener.stop()
        self.supervisor.stop()

    def reload(self) -> None:
        """Request that the settings be read again."""
        self._wanted.set()

    async def run(self) -> None:
        """Read the settings again whenever requested, and whenever their files changed, until cancelled."""
        await self.supervisor.begun.wait()
        last = dealt_with = self.settings_files.first_look
        while True:
            with anyio.move_on_after(until_beat(LOOK_PERIOD)):
                await self._wanted.wait()
            is_asked = self._wanted.is_set()
            look = await self._looked()
            if is_asked:
                self._wanted = anyio.Event()
                systemd.reloading()
            # A file that is being saved may be valid half-way, so two looks must agree: before the reading, and after.
            if is_asked or (look == last and look != dealt_with):
                parsed = await anyio.to_thread.run_sync(self.settings_files.read, abandon_on_cancel=True)
                # Looked at again: had the files changed while they were read, the settings could be a
                # mixture.
                last = await self._looked()
                if (is_asked or last == look) and await self._take(parsed, is_asked):
                    dealt_with = look
            else:
                last = look
            if is_asked:
                systemd.ready(self.supervisor.doing())

    async def _looked(self) -> Look:
        return await anyio.to_thread.run_sync(self.settings_files.look, abandon_on_cancel=True)

    async def _take(self, parsed: Parsed[Settings], is_asked: bool) -> bool:
        """Bring these settings into force, or refuse them; returns whether that is the end of it."""
        if parsed.value is None:
            problems = [problem.render() for problem in parsed.errors]
            self._refuse(problems, f"fix them; {_THEN}", is_asked)
        # Its lock, its store and its sockets are held for as long as the process lives.
        elif parsed.value.state_dir != self.supervisor.state_dir:
            self._refuse(
                ["state_dir can't change while the daemon runs (restart it)"], "restart it", is_asked
            )
        elif _listen(parsed.value) != self._listen:
            self._refuse(
                ["http.listen can't change while the daemon runs (restart it)"], "restart it", is_asked
            )
        else:
            return await self._use(parsed.value, is_asked)
        return True

    async def _use(self, settings: Settings, is_asked: bool) -> bool:
        try:
            # First the store, since only this can fail. The others then use what is in force.
            await self.supervisor.reload(settings, is_asked)
        except SettingsNotTaken as error:
            fix = fix_of_trouble(str(error))
            self._refuse(
                [f"the store can't be written: {error}"],
                f"{fix}: the daemon tries again; until then the old settings stay in force",
                is_asked,
                store_fix=fix,
            )
            return False
        watch = settings.watch
        self.inotify.use(watch.step, watch.debounce, watch.limit_share, settings.scan.period)
        self.declarer.use(settings)
        await anyio.to_thread.run_sync(self.declarer.check)
        if self.listener is not None:
            await self.listener.use_settings()
        self.studio.use_settings()
        self.metrics_file.use_settings()
        self.fleet.use_settings()
        return True

    def _refuse(self, problems: list[str], fix: str, is_asked: bool, store_fix: str | None = None) -> None:
        if is_asked or tuple(problems) != self.supervisor.settings_report.refused:
            self.log.error("settings.refused", problems=problems, fix=fix)
            self.supervisor.note_refusal(problems, store_fix)
