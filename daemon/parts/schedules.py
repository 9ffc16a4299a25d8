"""Schedules: keeping the times from chains' files in the store."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread

from runward.daemon.engine.part import Part
from runward.daemon.store.tables.triggers import all_standings
from runward.daemon.world.clock import until_beat
from runward.handlers.model.schedules import LOST, ScheduleChanged

PERIOD: Final = 5.0
"""Seconds between two looks at the files."""


@dataclass(slots=True)
class Schedules(Part):
    """Compares what the files say with what is waited for, and reports each difference once."""

    written: Callable[[], Mapping[str, str]]
    """What the files say about the schedules of all valid chains, by chain."""
    tell: Callable[[ScheduleChanged], None]
    _told: dict[str, str | None] = field(default_factory=dict)
    _same: Mapping[str, str] | None = None

    def pause(self) -> float | None:
        return until_beat(PERIOD)

    async def carry_out(self) -> bool:
        """Report the chains whose times changed, all at once."""
        try:
            await self._compare()
        except (sqlite3.Error, OSError) as error:
            self.log.warning("schedules.not_read", why=str(error))
        return False

    async def _compare(self) -> None:
        written = await anyio.to_thread.run_sync(self.written)
        if written is self._same and not self._told:
            return  # ten thousand schedules cost nothing while no file changes
        self._same = written
        known = await all_standings(self.store)
        kept = {chain: each.words for chain, each in known.items() if each.timer != LOST}
        for chain in sorted(written.keys() | known.keys()):
            says = written.get(chain)
            if chain in kept and kept[chain] == says:
                self._told.pop(chain, None)
            elif chain not in self._told or self._told[chain] != says:
                self._told[chain] = says
                self.tell(ScheduleChanged(chain, self.clock.now(), says))
