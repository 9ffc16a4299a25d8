"""The head of the chain of events, written to the log, so that nobody can rewrite earlier events unnoticed."""

import sqlite3
from dataclasses import dataclass
from typing import ClassVar, Final

import structlog

from runward.daemon.ports.clock import Clock
from runward.daemon.store.store import Store
from runward.daemon.store.tables.events import head
from runward.daemon.worker.part import Part

PERIOD: Final = 3600.0
"""Seconds between two lines."""

_AFTER_TROUBLE: Final = 60.0
"""Seconds until the store is asked again after a refusal."""


@dataclass(slots=True)
class ChainHead(Part):
    """Logs the head when the daemon starts and every hour after that, once there is an event."""

    is_owed: ClassVar = False

    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    _due_at: float | None = None
    """When to log it next (monotonic clock); None: at once."""

    def pause(self) -> float | None:
        return 0.0 if self._due_at is None else max(0.0, self._due_at - self.clock.monotonic())

    async def carry_out(self) -> bool:
        """Log the head if an hour has passed."""
        now = self.clock.monotonic()
        if self._due_at is not None and now < self._due_at:
            return False
        try:
            last = await head(self.store)
        except sqlite3.Error as error:
            self.log.warning("chain.head_not_read", why=str(error))
            self._due_at = now + _AFTER_TROUBLE
            return False
        self._due_at = now + PERIOD
        if last.seq:
            self.log.info("chain.head", seq=last.seq, hash=last.hash)
        return False
