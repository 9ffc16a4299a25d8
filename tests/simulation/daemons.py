"""One life of the daemon: the real supervisor over the simulated machine, in a process of its own."""

from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.abc
from tests.simulation.broken import Broken
from tests.simulation.launchers import SimulatedProcesses
from tests.simulation.ports import (
    STATE,
    SimulatedFiles,
    SimulatedNotifications,
    SimulatedRandomness,
    declared,
    playable,
)
from tests.simulation.storage import InlineConnection
from tests.simulation.virtual_time import Killed, Process

from runward.config.bundle import BundleRules
from runward.config.exchange import Executor
from runward.config.settings import Settings
from runward.daemon.host.acting_with_code import acting_with_code
from runward.daemon.host.assembly import World
from runward.daemon.host.supervisor import SettingsNotTaken, Supervisor
from runward.daemon.parts.actions_with_code import ActionsWithCode
from runward.daemon.parts.answering import InForce
from runward.daemon.store.store import Store
from runward.handlers.model.contracts import Ruled
from runward.handlers.model.sessions import CoveringRoot, RootOf

if TYPE_CHECKING:
    from tests.simulation.universe import Universe


class Daemon:
    """One life of the daemon: a process, its supervisor, and what became of it."""

    def __init__(self, universe: "Universe", number: int, once: bool) -> None:
        self.universe = universe
        self.number = number
        self.once = once
        self.process = Process(universe.timeline, f"daemon {number}")
        self.connection = InlineConnection(universe.disk, universe.chaos, self.alive, self._committed)
        self.store = Store(self.connection)
        self.ready = False
        self.stopping = False
        self.supervisor: Supervisor
        self._tasks: anyio.abc.TaskGroup

    def alive(self) -> None:
        """Raise where this process was killed."""
        if self.process.killed:
            raise Killed

    def _committed(self) -> None:
        """No daemon commits anything once another one has taken over, nor more running steps than may be."""
        self.universe.chains.check_slots()
        ((epoch,),) = self.universe.disk.world.execute("select epoch from daemon").fetchall()
        if self.store.epoch not in (0, epoch):
            self.universe.timeline.fail(
                Broken(f"{self.process.name} committed under epoch {self.store.epoch}, now it is {epoch}")
            )

    def start(self) -> None:
        self.process.start(self._main, self._ended)

    async def _main(self) -> None:
        universe = self.universe
        name = self.process.name
        world = World(
            universe.clock,
            SimulatedFiles(universe.kernel, universe.written, universe.shown.look),
            SimulatedProcesses(universe.table, universe.launchers),
            SimulatedRandomness(f"{universe.seed}/{name}"),
            SimulatedNotifications(
                self.process,
                universe.deliveries.watches,
                universe.kernel,
                universe.flat,
                universe.chaos.no_watch,
            ),
            InForce(
                declared=declared,
                ruled=lambda session: Ruled("nothing"),
                playable=playable,
                covering=self._covering,
                chains=universe.chains,
                messenger=universe.recipients,
                bundled=lambda session: BundleRules(sign="ed25519" if universe.signs else None),
                exchange=lambda: universe.exchange,
                with_code=ActionsWithCode(acting_with_code(lambda: universe.exchange, Executor, Path(STATE))),
            ),
            actions=universe.told_actions,
        )
        self.supervisor = Supervisor(STATE, universe.settings, world, self.store, universe.logger(name))
        async with anyio.create_task_group() as self._tasks:
            await (self.supervisor.once() if self.once else self.supervisor.run(self._is_ready))
            self._tasks.cancel_scope.cancel()
        await self.store.close()

    def _covering(self, session: RootOf) -> CoveringRoot | None:
        roots = self.universe.settings.roots
        names = (root.name for root in roots if session.path.startswith(f"{root.path}/"))
        return next(map(CoveringRoot, names), None)

    def _is_ready(self) -> None:
        self.ready = True

    def stop(self) -> None:
        """Ask it to end in order, as SIGTERM does."""
        self.stopping = True
        self.process.call(lambda: self.supervisor.stop())

    def reload(self, settings: Settings) -> None:
        """Have it take other settings, as SIGHUP does."""
        self.process.call(lambda: self._tasks.start_soon(self._reload, settings))

    async def _reload(self, settings: Settings) -> None:
        try:
            await self.supervisor.reload(settings)
        except SettingsNotTaken as error:
            self.universe.say(f"{self.process.name} keeps its settings: {error}")

    def _ended(self) -> None:
        self.connection.abandon()
        self.universe.daemon_ended(self)
