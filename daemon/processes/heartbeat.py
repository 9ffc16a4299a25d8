"""Whether a daemon that holds its lock is stalled, judged by the time of its last report."""

from typing import Final

BEAT: Final = 10.0
"""Seconds after which a daemon reports again although nothing is new."""

STALLED_AFTER: Final = 45.0
"""Seconds, suspends excluded, after which a daemon that did not report counts as stopped or stuck."""


def stalled_s(told_at: float | None, now: float) -> float | None:
    """The seconds from `told_at` to `now`, if a living daemon would have reported since; else None.

    Both times are from CLOCK_MONOTONIC, which can't be set and stops during suspend.
    """
    silent = None if told_at is None else now - told_at
    return round(silent, 3) if silent is not None and silent > STALLED_AFTER else None
