"""Waiting for facts: with generous patience, for a busy machine takes its time, and never for a time that may do."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0
"""Seconds after which a fact that has not come counts as one that never will.

More than the thirty after which a daemon's periodic scan finds what no notification told.
"""

SHORTEST_S = 0.002
LONGEST_S = 0.02
"""Seconds between two looks: few at first, then more, for each look takes processor time from what is waited for."""

MOST_S = 0.5
"""After a look that took long, twice as long passes until the next one, but no more than this."""

Found = TypeVar("Found")


def wait_for(fact: Callable[[], Found | None], what: str, within: float = PATIENCE_S) -> Found:
    """What `fact` returns once there is something. Fails with `what` where that takes too long."""
    give_up, pause = time.monotonic() + within, SHORTEST_S
    while True:
        looked = time.monotonic()
        found = fact()
        if found:
            return found
        took = time.monotonic() - looked
        assert time.monotonic() < give_up, f"not within {within:g} s: {what}"
        time.sleep(max(pause, min(2 * took, MOST_S)))
        pause = min(pause * 1.2, LONGEST_S)
