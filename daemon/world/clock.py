"""The real clock and the real source of tokens."""

import os
import time


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
