"""One alarm, kept by APScheduler. Due times are computed from rows; this only wakes the worker.

Its library sleeps by a clock that a step of the wall clock doesn't move, so the part that notices a step sets the alarm
again.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol, Self

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger

_NAME: Final = "due"


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
