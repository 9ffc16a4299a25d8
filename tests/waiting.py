"""Waiting for facts: with generous patience, for a busy machine takes its time, and never for a time that may do."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0
"""Seconds after which a fact that has not come counts as one that never will.

More than the thirty after which a daemon's periodic scan finds what no notification told.
"""

Found = TypeVar("Found")


def wait_for(fact: Callable[[], Found | None], what: str, within: float = PATIENCE_S) -> Found:
    """What `fact` returns once there is something. Fails with `what` where that takes too long."""
    give_up = time.monotonic() + within
    while True:
        found = fact()
        if found:
            return found
        assert time.monotonic() < give_up, f"not within {within:g} s: {what}"
        time.sleep(0.005)
