"""What became durable, in the daemon's log: each verdict and how long they took, what was hashed, and the head of the chain of events."""

import math
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from runward.daemon.engine.part import Done, Part
from runward.daemon.log import Log
from runward.daemon.store.batch import JobResult
from runward.daemon.store.tables.events import events_head
from runward.daemon.world.clock import Clock
from runward.handlers.layouts import native
from runward.handlers.model.contracts import RecordFiles
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

    def expected_for(self) -> float:
        """Seconds for which another one is expected, because there was one a moment ago; 0 if none is."""
        return max(0.0, self._last + REST - self.clock.monotonic())

    def react(self, done: Done[EndAttempt]) -> None:
        """Count and log the verdicts of these attempts."""
        now = self.clock.now()
        self._last = self.clock.monotonic()
        self.count += len(done)
        for _, effect in done:
            # A run that ended before this daemon started waited for the start, not for a verdict.
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


def log_hashed_files(log: Log, clock: Clock, results: Sequence[JobResult], took: float) -> None:
    """Log how many files these jobs hashed, and that it took `took` seconds."""
    files = [
        file
        for result in results
        for effect in result.effects
        if isinstance(effect, RecordFiles)
        for file in effect.files
    ]
    hashed = [each.size for each in files if each.sha256 is not None]
    if files:
        fields = {"files": len(hashed), "of": len(files), "bytes": sum(hashed)}
        log.info("files.hashed", **fields, at=clock.now(), took_s=took)


HEAD_PERIOD: Final = 3600.0
"""Seconds between two lines."""

_AFTER_TROUBLE: Final = 60.0
"""Seconds until the store is asked again after a refusal."""


@dataclass(slots=True)
class ChainHead(Part):
    """Logs the head when the daemon starts and every hour after that, once there is an event."""

    is_owed: ClassVar = False

    _due_at: float | None = None
    """When to log it next (monotonic clock); None: at once."""

    def pause(self) -> float | None:
        return 0.0 if self._due_at is None else max(0.0, self._due_at - self.clock.monotonic())

    async def carry_out(self) -> bool:
        """Log the head if an hour has passed."""
        now = self.clock.monotonic()
        if self._due_at is not None and now < self._due_at:
            return False
        try:
            last = await events_head(self.store)
        except sqlite3.Error as error:
            self.log.warning("chain.head_not_read", why=str(error))
            self._due_at = now + _AFTER_TROUBLE
            return False
        self._due_at = now + HEAD_PERIOD
        if last.seq:
            self.log.info("chain.head", seq=last.seq, hash=last.hash)
        return False
