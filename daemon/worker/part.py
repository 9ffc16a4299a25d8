"""A part of the daemon: in a task of its own, alongside the worker, it processes what it finds in the store.

The supervisor knows its parts only through this class. A new part is one more entry in `Assembly.parts`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import anyio

from runward.config.settings import Settings
from runward.handlers.model.effects import Effect


@dataclass(slots=True)
class Part(ABC):
    """Does what is due, then waits until it is woken, or for as long as `pause` says."""

    wakes_on: ClassVar[tuple[type[Effect], ...]] = ()
    """The kinds of effects that wake this part once they are durable."""
    is_owed: ClassVar[bool] = True
    """Whether `daemon --once` does this work before it ends."""
    _wake: anyio.Event = field(default_factory=anyio.Event, kw_only=True)

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def use(self, settings: Settings) -> None:
        """Continue under other settings."""
        self.wake()

    def degraded(self) -> list[str]:
        """What keeps it from its work, for `status`."""
        return []

    async def begin(self) -> None:
        """Load what the previous daemon left, before doing anything. Raises `sqlite3.Error`."""
        return

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wake = anyio.Event()
            await self.drain()
            with anyio.move_on_after(self.pause()):
                await self._wake.wait()

    async def drain(self) -> bool:
        """Do everything that is due now; returns whether there was anything."""
        did = False
        while await self.carry_out():
            did = True
        return did

    @abstractmethod
    async def carry_out(self) -> bool:
        """Do the next of what is due; returns whether there was anything."""

    @abstractmethod
    def pause(self) -> float | None:
        """Seconds until there may be something to do without a wake-up; None if there won't be anything."""
