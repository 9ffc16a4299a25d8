"""Packing: sessions that ended long ago become one compressed row each, in slices that never delay a verdict."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import structlog

from runward.daemon.ports.clock import Clock
from runward.daemon.queue.queue import Queue
from runward.daemon.store import packing
from runward.daemon.store.packing import FIRST, PackPlace
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import CommitUnknown, EpochRefused, Fenced
from runward.daemon.worker.part import Part
from runward.daemon.worker.slices import Slices

AFTER: Final = 86_400.0
"""Seconds after its end from which on a session is packed: until then people look at it, and it may be resumed."""

PERIOD: Final = 60.0
"""Seconds between two looks at what has become old enough."""

SESSIONS: Final = 64
"""The maximum number of sessions that are packed in one transaction."""


@dataclass(slots=True)
class Packer(Part):
    """One task that packs what is old enough."""

    is_owed: ClassVar = False

    store: Store
    queue: Queue
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    packed: int = 0
    """Sessions that this daemon has packed."""
    _trouble: str | None = None

    def degraded(self) -> list[str]:
        """What delays the packing, for `status`."""
        return [] if self._trouble is None else [f"packing is postponed: {self._trouble}"]

    def pause(self) -> float | None:
        return PERIOD

    async def carry_out(self) -> bool:
        """Pack all that is old enough now; returns whether anything was."""
        before = self.packed
        try:
            await self._pack(self.clock.now() - AFTER)
        except EpochRefused:
            raise
        except (CommitUnknown, Fenced, sqlite3.Error) as error:
            if self._trouble != str(error):
                self.log.warning("packing.put_off", why=str(error))
            self._trouble = str(error)
        else:
            self._trouble = None
        if self.packed > before:
            self.log.info("sessions.packed", sessions=self.packed - before)
        return self.packed > before

    async def _pack(self, before: float) -> None:
        slices = Slices(self.clock, self.busy, SESSIONS)
        place: PackPlace | None = FIRST
        while place is not None:
            await slices.begin()
            place = await self._slice(place, before, slices.size)
            await slices.end()

    async def _slice(self, place: PackPlace, before: float, most: int) -> PackPlace | None:
        async def some() -> PackPlace | None:
            found = await packing.sessions_to_pack(self.store, place, before, most, self.clock.now())
            if found.sessions:
                await self.store.run(found.statements, "pack")
                self.packed += found.sessions
            return found.place

        return await self.queue.beside(some)
