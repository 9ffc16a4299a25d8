"""A whole daemon in this process, over a real store and real directories, turned by hand: no watcher, no waiting.

Its clock stands still until a test moves it, and its processes are alive until a test says otherwise.
"""

import shutil
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

from runward.config.exchange import ExchangeRules
from runward.config.root import Root
from runward.config.settings import FleetSettings, Settings
from runward.daemon.host.assembly import World
from runward.daemon.host.supervisor import Supervisor
from runward.daemon.log import log_into
from runward.daemon.parts.actions_with_code import ActionsWithCode, Work, no_sandbox
from runward.daemon.parts.answering import (
    NO_CHAINS,
    Bundled,
    Chains,
    Covering,
    InForce,
    Playable,
    Ruling,
    no_bundles,
    no_playbooks,
    no_roots,
    no_rules,
)
from runward.daemon.parts.notices import NOBODY, Messenger
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered
from runward.daemon.store.connection import Connection, connect
from runward.daemon.store.ownership import prepare
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.tables.replays import told_actions_in
from runward.daemon.store.transaction import Row
from runward.daemon.watch.hints import Target
from runward.daemon.watch.notifications import Watching
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import SystemRandomness
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Announced, Begun, NotBegun
from runward.handlers.model.contracts import Declarations
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.processes import (
    FIRST_NAMESPACE,
    ProcessState,
    RecordedProcess,
    RunPlace,
    Whereabouts,
)
from runward.handlers.model.sessions import RunProcesses
from runward.handlers.sessions.over import Writer, WriterOf

SILENT = log_into(lambda line: None)
"""A log for daemons whose record is looked at instead."""


@dataclass
class StillClock:
    """Wall time and monotonic time, which move together when they are told to."""

    wall: float = 1_790_000_000.0
    since_boot: float = 1000.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.since_boot

    def move(self, seconds: float) -> None:
        self.wall += seconds
        self.since_boot += seconds


@dataclass
class ToldProcesses:
    """Processes that are alive but for those named in `gone`, by pid."""

    gone: set[int] = field(default_factory=set)
    started: list[StartRun] = field(default_factory=list)
    """What was ordered, in order; each begins unless `refuse` says otherwise."""
    refuse: dict[str, Begun | NotBegun] = field(default_factory=dict)
    told: list[int] = field(default_factory=list)
    """Launchers and processes that were told to end, by pid, in order."""
    killed: list[int] = field(default_factory=list)
    """Launchers and processes that were killed, by pid, in order."""
    ages: dict[int, float] = field(default_factory=dict)
    """Seconds since processes started, by pid."""
    boot: str = "this boot"
    booted: float = 0.0
    here: Whereabouts | None = None
    """Where processes are known by their numbers, unless in the first PID namespace of this boot."""
    writing: dict[str, Writer] = field(default_factory=dict)
    """Who writes foreign sessions, by the session's id; of the others nobody knows."""
    launchers: dict[int, str] = field(default_factory=dict)
    """The launchers' sessions that processes were started in, by pid."""

    def host(self) -> str:
        return "here"

    def boot_id(self) -> str:
        return self.boot

    def whereabouts(self) -> Whereabouts:
        return self.here or Whereabouts("this machine", self.boot, FIRST_NAMESPACE)

    def booted_at(self) -> float | None:
        return self.booted

    def descriptor(self, process: RecordedProcess) -> int | None:
        return None

    def writers(self) -> WriterOf:
        return lambda layout, path, session_id: self.writing.get(session_id, Writer("unknown"))

    def launcher_of(self, process: RecordedProcess, layout: str, path: str) -> str | None:
        return self.launchers.get(process.pid)

    def state(self, process: RecordedProcess) -> ProcessState:
        return "gone" if process.pid in self.gone else "alive"

    def is_nowhere(self, process: RecordedProcess) -> bool:
        return self.state(process) == "gone"

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> EndOrdered | EndNotOrdered:
        for each in (processes.launcher, processes.process):
            if each is not None and each.pid not in self.gone:
                self.told.append(each.pid)
                return EndOrdered(f"process {each.pid} was told")
        return EndNotOrdered("all are gone", too_late=True)

    def end_tree(self, processes: RunProcesses, directory: str) -> EndOrdered | EndNotOrdered:
        found = [each.pid for each in (processes.launcher, processes.process) if each is not None]
        living = [pid for pid in found if pid not in self.gone]
        self.killed += living
        self.gone |= set(living)
        return (
            EndOrdered(f"{len(living)} processes were killed")
            if living
            else EndNotOrdered("all are gone", too_late=True)
        )

    def age(self, process: RecordedProcess) -> float | None:
        return self.ages.get(process.pid)

    def start(self, order: StartRun, epoch: int) -> Begun | Announced | NotBegun:
        self.started.append(order)
        return self.refuse.get(order.key, Begun())

    def remove_worktree(self, name: str, repo: str) -> str | None:
        raise AssertionError("no run here has a worktree")

    def expect_start(self, epoch: int) -> None:
        pass

    def forget_starts(self, owed: Collection[str]) -> None:
        pass


class NoNotifications:
    """A watch that never says anything: the scan must find everything."""

    async def watch(
        self,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None:
        raise AssertionError("nobody watches here")


def declares_nothing(playbook: str | None, agent: str | None) -> Declarations:
    return Declarations(None, None)


@cache
def empty_store() -> bytes:
    """The bytes of a store that was just made: migrating costs more than a copy."""
    directory = Path(mkdtemp())
    try:
        migrate(directory / "runward.db")
        return (directory / "runward.db").read_bytes()
    finally:
        shutil.rmtree(directory)


@dataclass
class Daemon:
    """One daemon over `state`, watching the directory `root` under the name `runs`."""

    state: Path
    root: Path
    clock: StillClock
    processes: ToldProcesses
    store: Store
    supervisor: Supervisor

    async def settle(self) -> None:
        """Scan, ask after processes, and work until there is nothing left to do now."""
        rounds = self.supervisor.assembly.rounds
        await rounds.check_roots()
        await rounds.scan()
        await rounds.check_processes()
        await rounds.scan_doubtful()
        rounds.check_writers()
        rounds.check_due()
        await self.work()

    async def work(self) -> None:
        """Take turns and carry out until there is nothing left to do now, in the background either."""
        supervisor = self.supervisor
        while (
            await supervisor.assembly.worker.turn()
            or await supervisor.assembly.comparison.step()
            or await supervisor.assembly.outbox.carry_out()
        ):
            pass
        while await supervisor.assembly.starts.carry_out():
            pass
        if supervisor.assembly.worker.findings:
            await self.work()
        await self.supervisor.assembly.orders.carry_out()
        # What follows a verdict waits while there is something to look at, as in `daemon --once`.
        while not len(self.supervisor.assembly.hints) and await self.supervisor.assembly.background.drain():
            pass

    async def stop(self) -> None:
        """End in order, as after SIGTERM."""
        await self.supervisor._finish()

    async def rows(self, sql: str) -> list[Row]:
        return await self.store.read(sql)


@asynccontextmanager
async def daemon(
    base: Path,
    clock: StillClock,
    processes: ToldProcesses,
    wrap: Callable[[Connection], Connection] = lambda connection: connection,
    declared: Callable[[str | None, str | None], Declarations] = declares_nothing,
    batch: int = 256,
    ruled: Ruling = no_rules,
    playable: Playable = no_playbooks,
    roots: Sequence[Root] = (),
    covering: Covering = no_roots,
    messenger: Messenger = NOBODY,
    bundled: Bundled = no_bundles,
    chains: Chains = NO_CHAINS,
    exchange: ExchangeRules = ExchangeRules(),  # noqa: B008 # it is a value
    act_with_code: Work = no_sandbox,
    fleet: FleetSettings | None = None,
) -> AsyncIterator[Daemon]:
    """A daemon that has started, over `base/state`, `base/runs` and further roots; the first two are made if need be."""
    state, root = base / "state", base / "runs"
    if not (state / "runward.db").exists():
        prepare(state)
        (state / "runward.db").write_bytes(empty_store())
        root.mkdir(exist_ok=True)
    settings = Settings(str(state), roots=(Root("runs", str(root)), *roots), batch=batch)
    world = World(
        clock,
        Files(state),
        processes,
        SystemRandomness(),
        NoNotifications(),
        InForce(
            declared=declared,
            ruled=ruled,
            playable=playable,
            covering=covering,
            chains=chains,
            messenger=messenger,
            bundled=bundled,
            exchange=lambda: exchange,
            fleet=lambda: fleet,
            with_code=ActionsWithCode(act_with_code),
        ),
        actions=partial(told_actions_in, state),
    )
    store = Store(wrap(await connect(state / "runward.db")))
    try:
        supervisor = Supervisor(state, settings, world, store, SILENT)
        await supervisor.start()
        yield Daemon(state, root, clock, processes, store, supervisor)
    finally:
        await store.close()
