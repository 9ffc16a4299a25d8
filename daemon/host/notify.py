"""Telling systemd the daemon's state: datagrams to NOTIFY_SOCKET (sd_notify(3)), if that is set."""

import os
import socket
import time
from typing import Final

LONGEST_STATUS: Final = 2048
"""Bytes of a status. systemd drops a whole datagram of more than 4,096, whatever else is in it."""


def notify(*states: str) -> None:
    """Send the states, such as `READY=1`, if NOTIFY_SOCKET is set."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto("\n".join(states).encode(), address)
    except OSError:
        # The receiver has ended; the log says the same.
        return


def ready(status: str) -> None:
    """The daemon runs, for the first time or again after `reloading`. Anyone who waits for that can read the status."""
    tell(status)
    notify("READY=1")


def reloading() -> None:
    """The daemon reads its settings again; `ready` ends that. Newer versions of systemd need to know since when."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
    tell("reading the settings again")


def stopping(status: str) -> None:
    """The daemon has begun to stop."""
    notify("STOPPING=1")
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
