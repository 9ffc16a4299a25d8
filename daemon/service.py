"""The real daemon: a supervisor over the real world, under a state directory's lock."""

import gc
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import anyio
import structlog

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.clock import SystemClock, SystemRandomness
from runward.daemon.declarations import Declarer
from runward.daemon.inbox.spool import INBOX
from runward.daemon.log import Sinks
from runward.daemon.memory import giver_back
from runward.daemon.notify import notify
from runward.daemon.ports import EpochPassed
from runward.daemon.processes.starting import StartingProcesses
from runward.daemon.rundir.files import RealFiles
from runward.daemon.schedule.alarm import SchedulerAlarm
from runward.daemon.store.checkpoint import Checkpointer
from runward.daemon.store.migrate import migrate
from runward.daemon.store.ownership import hold, prepare
from runward.daemon.store.store import Store, connect
from runward.daemon.store.transaction import EpochRefused
from runward.daemon.supervisor import SettingsNotTaken, Supervisor, World
from runward.daemon.upkeep import Upkeep
from runward.daemon.watch.notifications import Inotify

STORE: Final = "runward.db"

Load = Callable[[], Parsed[Settings]]


async def serve(
    settings: Settings,
    log: structlog.typing.FilteringBoundLogger,
    sinks: Sinks,
    reload: Load,
    once: bool = False,
) -> None:
    """Be the daemon of `settings.state_dir` until SIGTERM or SIGINT; with `once`, until nothing is due.

    Raises `StateDirectoryHeld`, `StoreTooNew`, `EpochRefused` or `EpochPassed` (a successor took over),
    and `OSError` or `sqlite3.Error` where the state directory can't be used.
    """
    try:
        await _serve(settings, log, sinks, reload, once)
    except BaseExceptionGroup as group:
        cause = _cause(group)
        if isinstance(cause, EpochRefused | EpochPassed):
            log.error("superseded", why=str(cause), mend="nothing is lost: the daemon that took over goes on")
        raise cause from group


def _cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What ended the task group: that a successor took over, or else the first failure in it."""
    leaves: list[BaseException] = []
    for each in group.exceptions:
        leaves.append(_cause(each) if isinstance(each, BaseExceptionGroup) else each)
    return next((each for each in leaves if isinstance(each, EpochRefused | EpochPassed)), leaves[0])


async def _serve(
    settings: Settings,
    log: structlog.typing.FilteringBoundLogger,
    sinks: Sinks,
    reload: Load,
    once: bool,
) -> None:
    state = Path(settings.state_dir)
    prepare(state)
    _make_own_roots(settings)
    with ExitStack() as stack:
        stack.callback(hold(state).release)
        migrate(state / STORE)
        (state / STORE).chmod(0o600)
        store = Store(await connect(state / STORE))
        declarer = Declarer(settings)

        def make_alarm(ring: Callable[[], None]) -> SchedulerAlarm:
            return stack.enter_context(SchedulerAlarm(ring))

        try:
            supervisor = Supervisor(
                state, settings, _world(settings, state, declarer), store, log, make_alarm
            )
            supervisor.worker.tell = sinks.add
            checkpointer = stack.enter_context(closing(Checkpointer(state / STORE)))
            _collect_rarely()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_signals, supervisor, declarer, log, reload)
                tasks.start_soon(Upkeep(store, checkpointer, giver_back(), log).run)
                await (supervisor.once() if once else supervisor.run())
                tasks.cancel_scope.cancel()
        finally:
            await store.close()


def _world(settings: Settings, state: Path, declarer: Declarer) -> World:
    """The real one."""
    inotify = Inotify(
        state / INBOX,
        settings.watch.step,
        settings.watch.debounce,
        settings.watch.limit_share,
        settings.scan.period,
    )
    return World(
        SystemClock(),
        RealFiles(state),
        StartingProcesses(state),
        SystemRandomness(),
        inotify,
        declarer,
        declarer.ruled,
        declarer.play,
        declarer.covering,
    )


def _collect_rarely() -> None:
    """Leave what was imported out of garbage collection, and collect once in many objects.

    A batch makes tens of thousands of short-lived values and next to no cycles: collecting as often
    as Python does by itself costs a tenth of the time of a verdict.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _make_own_roots(settings: Settings) -> None:
    """Make the roots that lie in the state directory; others are their owners' to make."""
    for root in settings.roots:
        if root.path.startswith(settings.state_dir + "/"):
            Path(root.path).mkdir(mode=0o700, parents=True, exist_ok=True)


async def _signals(
    supervisor: Supervisor,
    declarer: Declarer,
    log: structlog.typing.FilteringBoundLogger,
    load: Load,
) -> None:
    """SIGTERM and SIGINT stop; SIGHUP reads the settings again, and keeps the old ones if they are wrong."""
    try:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    await _reload(supervisor, declarer, log, load)
                else:
                    log.info("stopping", signal=signal.Signals(number).name)
                    supervisor.stop()
    finally:
        # The receiver leaves the default behind, and a second SIGTERM would kill what is ending already.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)


async def _reload(
    supervisor: Supervisor, declarer: Declarer, log: structlog.typing.FilteringBoundLogger, load: Load
) -> None:
    notify("RELOADING=1")
    parsed = await anyio.to_thread.run_sync(load)
    if parsed.value is None:
        problems = [problem.render() for problem in parsed.errors]
        log.error(
            "settings.refused", problems=problems, mend="mend them and send SIGHUP again; the old ones hold"
        )
    elif parsed.value.state_dir != supervisor.state_dir:
        log.error(
            "settings.refused", problems=["state_dir can't change while the daemon runs"], mend="restart it"
        )
    else:
        try:
            await supervisor.reload(parsed.value)
        except SettingsNotTaken as error:
            log.error(
                "settings.refused",
                problems=[f"the store can't be written: {error}"],
                mend="free space or repair the disk, then send SIGHUP again; the old ones hold",
            )
        else:
            declarer.use(parsed.value)
    notify("READY=1")
