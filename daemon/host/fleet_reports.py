"""What this host owes to its fleet is noted while the settings have one, and what the fleet has is no longer owed.

Loaded only if there is a fleet. The program delivers (`fleet_program.py`).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from runward.config.settings import FleetSettings, Settings
from runward.daemon.engine.part import Slices
from runward.daemon.host.fleet_program import FleetProgram
from runward.daemon.log import Log
from runward.daemon.store.store import Store
from runward.daemon.store.tables import fleet_outbox
from runward.daemon.store.transaction import NOT_STORED
from runward.daemon.world.clock import Clock

MOST_WALKED: Final = 256
"""Sessions that are owed in one transaction where all are."""

RETRY_S: Final = 5.0
"""Seconds after which the store is asked again that refused."""

_PAUSE_S: Final = 0.05
"""Seconds between two looks at what became owed: commits may come by the hundred."""


class FleetReports:
    """Notes what is owed, and runs the program."""

    def __init__(
        self,
        state: Path,
        settings: Callable[[], Settings],
        store: Store,
        clock: Clock,
        busy: Callable[[], bool],
        log: Log,
    ) -> None:
        self._settings = settings
        self._store = store
        self._log = log
        self._woken = anyio.Event()
        self._program = FleetProgram(state, settings, lambda: store.epoch, self._wake, log)
        self._slices = Slices(clock, busy, MOST_WALKED)
        self._noted_as: str | None = None
        """What is reported where, since it is noted; None while nothing is."""
        self._is_walking = False
        self._hinted = 0
        """The version of which the program was told."""
        self._trouble: str | None = None

    def degraded(self) -> list[str]:
        """What is wrong, for `status`."""
        own = [] if self._trouble is None else [f"fleet: {self._trouble}"]
        return [*own, *self._program.degraded()]

    def use_settings(self) -> None:
        """Other settings are in force."""
        self._program.use_settings()
        self._wake()

    async def begin(self) -> None:
        """Note what changes from now on. Raises what the store raises."""
        fleet = self._settings().fleet
        wanted = None if fleet is None else _reported_as(fleet)
        if wanted == self._noted_as:
            return
        if wanted is None:
            self._store.tell_commit = _nothing
            await fleet_outbox.switch_off(self._store)
        else:
            await fleet_outbox.switch_on(self._store, wanted)
            self._store.tell_commit = self._wake
            self._is_walking = True
        self._noted_as = wanted

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._program.run)
            while True:
                self._woken = anyio.Event()
                is_done = await self._work()
                with anyio.move_on_after(None if is_done else RETRY_S):
                    await self._woken.wait()
                await anyio.sleep(_PAUSE_S)

    def _wake(self) -> None:
        self._woken.set()

    async def _work(self) -> bool:
        """Obey the settings, mark what was delivered, and tell the program what is owed; returns whether the store took it."""
        try:
            await self.begin()
            if self._noted_as is None:
                return True
            await self._walk()
            sent = [*self._program.delivered]
            if sent:
                await fleet_outbox.delivered(self._store, sent)
                # More may have come in the meantime.
                del self._program.delivered[: len(sent)]
            newest = await fleet_outbox.newest(self._store)
        except NOT_STORED as error:
            self._trouble = str(error)
            self._log.error("fleet.not_marked", why=str(error))
            return False
        self._trouble = None
        if newest > self._hinted:
            self._hinted = newest
            self._program.hint()
        return True

    async def _walk(self) -> None:
        """Owe what may have changed unnoticed."""
        while self._is_walking:
            await self._slices.begin()
            self._is_walking = await fleet_outbox.walk(self._store, self._slices.size)
            self._program.hint()
            await self._slices.end()


def _reported_as(fleet: FleetSettings) -> str:
    return json.dumps([fleet.host, fleet.database, fleet.titles])


def _nothing() -> None:
    """Without a fleet, commits concern nobody."""
