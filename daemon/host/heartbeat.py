"""How to find out that a daemon which holds its lock is alive and not stalled: by the time of its last report."""

from typing import Final

BEAT: Final = 10.0
"""Seconds after which a daemon reports again although nothing is new."""

STALLED_AFTER: Final = 45.0
"""Seconds of a running machine after which a daemon that did not report is stopped, or stuck."""


def stalled_s(told_at: float | None, now: float) -> float | None:
    """The seconds from `told_at` to `now`, if a living daemon would have reported since; else None.

    Both are by the clock that nobody sets and that stops in suspend (CLOCK_MONOTONIC).
    """
    silent = None if told_at is None else now - told_at
    return round(silent, 3) if silent is not None and silent > STALLED_AFTER else None
