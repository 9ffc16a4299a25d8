"""Schedules: keeping the times from chains' files in the store."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

import anyio
import anyio.to_thread

from runward.daemon.engine.part import Part
from runward.daemon.log import Log
from runward.daemon.store.store import Store
from runward.daemon.store.tables.triggers import all_standings
from runward.daemon.world.clock import Clock
from runward.handlers.model.schedules import LOST, ScheduleChanged

PERIOD: Final = 5.0
"""Seconds between two looks at the files."""


class Schedules(Part):
    """Compares what the files say with what is waited for, and reports each difference once."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        log: Log,
        written: Callable[[], Mapping[str, str]],
        tell: Callable[[ScheduleChanged], None],
    ) -> None:
        super().__init__()
        self._store, self._clock, self._log = store, clock, log
        self._written, self._tell = written, tell
        self._told: dict[str, str | None] = {}
        self._same: Mapping[str, str] | None = None

    def pause(self) -> float | None:
        return PERIOD

    async def carry_out(self) -> bool:
        """Report the chains whose times changed, all at once."""
        try:
            await self._compare()
        except (sqlite3.Error, OSError) as error:
            self._log.warning("schedules.not_read", why=str(error))
        return False

    async def _compare(self) -> None:
        written = await anyio.to_thread.run_sync(self._written)
        if written is self._same and not self._told:
            return  # ten thousand schedules cost nothing while no file changes
        self._same = written
        known = await all_standings(self._store)
        kept = {chain: each.words for chain, each in known.items() if each.timer != LOST}
        for chain in sorted(written.keys() | known.keys()):
            says = written.get(chain)
            if chain in kept and kept[chain] == says:
                self._told.pop(chain, None)
            elif chain not in self._told or self._told[chain] != says:
                self._told[chain] = says
                self._tell(ScheduleChanged(chain, self._clock.now(), says))
