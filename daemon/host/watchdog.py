"""The unit's watchdog, fed by real progress of the event loop, of the store's thread and of the watcher's.

Each of the three shows its progress: the loop by returning to this task, the store by answering a question that is
queued with its transactions, the watcher by its passes. When one of them hangs, feeding stops, systemd ends the daemon
and starts the next one. The work in progress is resumed from the store.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
import structlog

from runward.daemon.host import notify
from runward.daemon.store.store import Store

LONGER: Final = 30.0
"""Seconds that each sign of life requests while the daemon starts or stops."""

EVERY: Final = 10.0
"""The longest time between two signs of life, in seconds."""

LEAST_PATIENCE: Final = 12.0
"""The shortest silence that counts as a hang, in seconds: the watcher may wait for a change for five."""


class Daemon(Protocol):
    """What the watchdog needs to know about the daemon. While it starts or stops, its unit gets more time."""

    is_ready: bool
    is_stopping: bool

    def doing(self) -> str: ...


@dataclass(slots=True)
class Watchdog:
    """One task alongside the daemon. `watcher_seen` is when the watcher's thread last beat (monotonic clock).

    It is None if no watcher runs. `period` is the number of seconds within which the unit wants a sign of life, None if
    it has no watchdog.
    """

    store: Store
    watcher_seen: Callable[[], float | None]
    daemon: Daemon
    log: structlog.typing.FilteringBoundLogger
    period: float | None = field(default_factory=notify.watchdog_period)
    now: Callable[[], float] = time.monotonic
    _store_seen: float = 0.0
    _hanging: tuple[str, ...] = ()

    async def run(self) -> None:
        """Feed until cancelled."""
        self._store_seen = self.now()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ask_store)
            while True:
                self.feed()
                await anyio.sleep(self._every)

    @property
    def _every(self) -> float:
        return EVERY if self.period is None else min(EVERY, self.period / 4)

    def feed(self) -> None:
        """Give a sign of life, unless something hangs."""
        hanging = self.hanging()
        if hanging and hanging != self._hanging:
            self.log.error(
                "hanging", parts=list(hanging), fix="if the unit has a watchdog, systemd restarts the daemon"
            )
        self._hanging = hanging
        if hanging:
            return
        if not self.daemon.is_ready or self.daemon.is_stopping:
            notify.extend(LONGER)
        elif self.period is not None:
            notify.alive(self.daemon.doing())

    def hanging(self) -> tuple[str, ...]:
        """Which parts have shown no progress for too long.

        The loop can't be among them: if it hangs, this isn't called.
        """
        patience = max(LEAST_PATIENCE, (self.period or 0.0) / 2)
        seen = {"store": self._store_seen, "watcher": self.watcher_seen()}
        return tuple(part for part, at in seen.items() if at is not None and self.now() - at > patience)

    async def _ask_store(self) -> None:
        while True:
            await self.store.answer()
            self._store_seen = self.now()
            await anyio.sleep(self._every)
