"""Schedules: keeping the times from chains' files in the store; and one alarm, which knows only the next time at which something is due."""

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol, Self

import anyio
import anyio.to_thread
import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger

from runward.daemon.engine.part import Part
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
        log: structlog.typing.FilteringBoundLogger,
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


_NAME: Final = "due"


# Its library sleeps by a clock that a step of the wall clock doesn't move, so the part that notices a step
# sets the alarm again.
class Alarm(Protocol):
    """Rings once at the moment that it was set to last."""

    def set(self, at: float | None) -> None: ...


class SchedulerAlarm:
    """The alarm of a real daemon; `ring` is called in the event loop. Use as a context."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        # A late job is still wanted, once: the library's default is one second of grace.
        self._scheduler = AsyncIOScheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )

    def __enter__(self) -> Self:
        self._scheduler.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._scheduler.shutdown(wait=False)

    def set(self, at: float | None) -> None:
        """Ring at `at` (Unix seconds), replacing what was set before; None for never."""
        if at is None:
            if self._scheduler.get_job(_NAME) is not None:
                self._scheduler.remove_job(_NAME)
            return
        moment = DateTrigger(datetime.fromtimestamp(at, UTC))
        self._scheduler.add_job(self._rang, moment, id=_NAME, replace_existing=True)

    async def _rang(self) -> None:
        self._ring()
