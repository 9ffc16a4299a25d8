"""The clock that all times come from, and the source of tokens."""

import os
import time
from typing import Protocol


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


class SystemRandomness:
    """Tokens that nobody can guess."""

    def token(self) -> str:
        return os.urandom(8).hex()
