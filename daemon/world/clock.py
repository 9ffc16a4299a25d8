"""The clock that all times come from, and the source of tokens."""

import os
import time
from typing import Final, Protocol

import anyio


class Clock(Protocol):
    """Wall time in Unix seconds, and a time that only moves forward, suspends included."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Randomness(Protocol):
    """Where tokens come from."""

    def token(self) -> str: ...


class SystemClock:
    """Wall time, and the time since boot with suspends, which no clock step touches."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


_EARLY: Final = 0.001
"""Seconds by which a timer may fire early."""


def until_beat(period: float) -> float:
    """Seconds until the next moment that all who wake in this period share, at most the period.

    An idle daemon only waits. If all wait for the same moments, it wakes once for all of them, which costs a third less.
    """
    left = period - anyio.current_time() % period
    return left if left > _EARLY else period


class SystemRandomness:
    """Tokens that nobody can guess."""

    def token(self) -> str:
        return os.urandom(8).hex()
