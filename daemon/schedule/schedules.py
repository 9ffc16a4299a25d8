"""Schedules: having the times that chains' files say kept in the store, at the start and when the files change."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

import anyio
import anyio.to_thread
import structlog

from runward.daemon.ports.clock import Clock
from runward.daemon.store.store import Store
from runward.daemon.store.tables.schedules import all_standings
from runward.handlers.schedules.effects import LOST
from runward.handlers.schedules.events import ScheduleChanged

PERIOD: Final = 5.0
"""Seconds between two looks at the files."""


class Schedules:
    """Compares what the files say with what is waited for, and tells of each difference once."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        written: Callable[[], Mapping[str, str]],
        tell: Callable[[ScheduleChanged], None],
    ) -> None:
        self._store, self._clock, self._log = store, clock, log
        self._written, self._tell = written, tell
        self._told: dict[str, str | None] = {}
        self._same: Mapping[str, str] | None = None
        self._wake = anyio.Event()

    def wake(self) -> None:
        """The files may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Compare until cancelled."""
        while True:
            self._wake = anyio.Event()
            await self.compare()
            with anyio.move_on_after(PERIOD):
                await self._wake.wait()

    async def compare(self) -> None:
        """Tell of the chains whose times changed."""
        try:
            await self._compare()
        except (sqlite3.Error, OSError) as error:
            self._log.warning("schedules.not_read", why=str(error))

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
