"""Verdicts that became durable: one log line for each, and how long they took."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from runward.daemon.ports.clock import Clock
from runward.daemon.worker.reactions import Done
from runward.handlers.layouts import native
from runward.handlers.model.events import Event
from runward.handlers.model.reasons import is_failure
from runward.handlers.model.sessions import AttemptEnded, EndAttempt

REST: Final = 0.5
"""Seconds after a verdict in which another one is expected.

Lone runs don't notice it: background work is gathered longer.
"""

MOST_TIMES: Final = 1000
"""The number of latest verdicts whose times are kept."""

_OF_NATIVE: Final = f"{native.LAYOUT}:"


@dataclass(slots=True)
class Verdicts:
    """Counts, times and logs verdicts."""

    clock: Clock
    tell: Callable[[Sequence[dict[str, object]]], None] = lambda lines: None
    """Logs the verdicts of a batch in one go."""
    count: int = 0
    lag: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TIMES))
    """Seconds from the end of a native run to its durable verdict, for the latest runs since the daemon started.

    Foreign sessions don't count: their logs are believed only after a rest, and may be read much later."""
    lag_of_awaited: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TIMES))
    """The same for those whose verdict waited until their directory was quiet."""
    _since: float = field(init=False)
    _last: float = -math.inf
    """When the last verdict became durable (monotonic seconds)."""

    def __post_init__(self) -> None:
        self._since = self.clock.now()

    def are_expected(self) -> bool:
        """Whether there was a verdict a moment ago."""
        return self.clock.monotonic() - self._last < REST

    def react(self, done: Done[EndAttempt]) -> None:
        """Count and log the verdicts of these attempts."""
        now = self.clock.now()
        self._last = self.clock.monotonic()
        self.count += len(done)
        for _, effect in done:
            if effect.key.startswith(_OF_NATIVE) and effect.at >= self._since:
                (self.lag_of_awaited if effect.was_awaited else self.lag).append(now - effect.at)
        self.tell([_line(effect, job.event, now) for job, effect in done])


def _line(effect: EndAttempt, event: Event, now: float) -> dict[str, object]:
    """A verdict as a log line: a warning if something failed, unless it is history."""
    is_history = isinstance(event, AttemptEnded) and event.origin == "history"
    is_bad = is_failure(effect.status, effect.reason.code) and not is_history
    return {
        "session": effect.key,
        "attempt": effect.attempt,
        "status": effect.status,
        "reason": effect.reason.code,
        "delivery": effect.delivery,
        "ended_by": effect.ended_by,
        "committed_at": now,
        "event": "session.finished",
        "level": "warning" if is_bad else "info",
    }
