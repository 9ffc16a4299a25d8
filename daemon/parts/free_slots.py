"""Free slots that no ending step offers: at the start, and after new settings that allow more steps at once."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from runward.config.settings import Settings
from runward.daemon.ports.clock import Clock
from runward.daemon.store.store import Store
from runward.daemon.store.tables.chain_runs import offered, slots
from runward.daemon.worker.part import Part
from runward.handlers.model.chains import SlotOffered

_PERIOD: Final = 5.0
"""Seconds until the store is asked again after a refusal."""


@dataclass(slots=True)
class FreeSlots(Part):
    """Offers them to waiting steps. `limit` says how many slots there are."""

    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    limit: Callable[[], int]
    tell: Callable[[SlotOffered], None]
    _is_due: bool = True

    def use(self, settings: Settings) -> None:
        """There may be more slots now."""
        self._is_due = True
        self.wake()

    def pause(self) -> float | None:
        return _PERIOD if self._is_due else None

    async def carry_out(self) -> bool:
        """Offer each slot that is free to another step, once."""
        if not self._is_due:
            return False
        try:
            standing, undecided = await slots(self.store), await offered(self.store)
        except sqlite3.Error as error:
            self.log.warning("slots.not_read", why=str(error))
            return False
        self._is_due = False
        now = self.clock.now()
        for waiter in standing.waiters[: max(0, self.limit() - len(standing.running))]:
            if waiter.run in undecided:
                continue  # don't repeat an offer that waits behind a held job each time the daemon starts
            by = f"{self.store.epoch}@{now}"
            self.tell(SlotOffered(waiter.run, waiter.step, waiter.attempt, now, by))
        return True
