"""The workers that were killed or crashed since the daemon started, for `status`."""

import threading
import time
from dataclasses import dataclass
from typing import Final

_LONGEST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class KilledWorkers:
    """How many there were; when the last one was noticed (Unix seconds), and why it ended."""

    count: int
    last_at: float
    last_reason: str


class KilledCount:
    """Counts them; used in many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._killed: KilledWorkers | None = None

    def add(self, reason: str) -> None:
        """Count one more. Code can influence the reason, so its length is limited."""
        with self._lock:
            count = 1 if self._killed is None else self._killed.count + 1
            self._killed = KilledWorkers(count, time.time(), reason[:_LONGEST_REASON])

    def report(self) -> KilledWorkers | None:
        """The numbers so far; None if there were none."""
        return self._killed
