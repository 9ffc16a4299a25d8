"""Telling systemd the daemon's state (sd_notify(3)), and feeding the unit's watchdog by real progress."""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from runward.daemon.log import Log
from runward.daemon.store.store import Store

LONGEST_STATUS: Final = 2048
"""Bytes of a status. systemd drops a whole datagram of more than 4,096, whatever else is in it."""


ONCE_PATIENCE: Final = 1.0
"""Seconds to wait for a receiver whose queue is full, for what is said once. A sign of life is followed by the next one."""


def notify(*states: str, patience: float = 0.0) -> None:
    """Send the states, such as `READY=1`, if NOTIFY_SOCKET is set.

    A receiver that reads nothing is waited for at most `patience` seconds, and then not told: it must not stop the daemon.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(patience)
            sender.sendto("\n".join(states).encode(), address)
    except OSError:
        # The receiver has ended, or reads nothing; the log says the same.
        return


def ready(status: str) -> None:
    """The daemon runs, for the first time or again after `reloading`. Anyone who waits for that can read the status."""
    tell(status)
    # Each state has a datagram of its own: systemd drops a whole datagram that is too long.
    notify("READY=1", patience=ONCE_PATIENCE)


def reloading() -> None:
    """The daemon reads its settings again; `ready` ends that. Newer versions of systemd need to know since when."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", patience=ONCE_PATIENCE)
    tell("reading the settings again")


def stopping(status: str) -> None:
    """The daemon has begun to stop."""
    notify("STOPPING=1", patience=ONCE_PATIENCE)
    tell(status)


def extend(seconds: float) -> None:
    """A start or a stop is in progress: don't give up within the next `seconds`, whatever the unit's limit is."""
    notify(f"EXTEND_TIMEOUT_USEC={round(seconds * 1_000_000)}")


def alive(status: str) -> None:
    """Report progress since the last call: this keeps the unit's watchdog quiet."""
    notify("WATCHDOG=1")
    tell(status)


def is_asked() -> bool:
    """Whether NOTIFY_SOCKET is set."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def watchdog_period() -> float | None:
    """Seconds within which each `alive` is expected; None if none is expected, or not from this process."""
    # The variable is inherited: a daemon that was started by another service must not feed that one's
    # watchdog.
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        microseconds = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return microseconds / 1_000_000 if microseconds > 0 else None


def tell(status: str) -> None:
    """The current activity, for people: one line, never in a datagram with a state that matters, because it may be
    long."""
    line = " ".join(status.split()).encode(errors="replace")
    if len(line) > LONGEST_STATUS:
        line = line[: LONGEST_STATUS - 3].decode(errors="ignore").encode() + "…".encode()
    notify(f"STATUS={line.decode()}")


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
    log: Log
    period: float | None = field(default_factory=watchdog_period)
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
        # No sign of life while something hangs, even though this loop runs: systemd then restarts the daemon.
        if hanging:
            return
        if not self.daemon.is_ready or self.daemon.is_stopping:
            extend(LONGER)
        elif self.period is not None:
            alive(self.daemon.doing())

    def hanging(self) -> tuple[str, ...]:
        """Which parts have shown no progress for too long.

        The loop can't be among them: if it hangs, this isn't called.
        """
        patience = max(LEAST_PATIENCE, (self.period or 0.0) / 2)
        seen = {"store": self._store_seen, "watcher": self.watcher_seen()}
        return tuple(part for part, at in seen.items() if at is not None and self.now() - at > patience)

    async def _ask_store(self) -> None:
        while True:
            # Asked of the store's own thread: a commit that hangs shows here, and nowhere else.
            await self.store.answer()
            self._store_seen = self.now()
            await anyio.sleep(self._every)
