"""Whether to believe the wall clock when it says that something is old.

If the clock were 18 months ahead at one start, everything would be pruned. So the daemon regularly records what the
clock says, across restarts, and believes it once it has been consistent for a while.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.disk.durable import write_durably
from runward.daemon.ports.clock import Clock
from runward.handlers.model.stored import Stored, as_json

CLOCK: Final = "clock"
"""The file in the state directory."""

LONGEST: Final = 7 * 86_400.0
"""Seconds of the longest leap that is believed, and the seconds that a clock must run on before it is believed."""


class Noted(NamedTuple):
    """What the clock said (Unix seconds): since when and until when without a leap, and where the last leap began.

    `leapt_from` is None if there was no leap, or one back.
    """

    since: float
    until: float
    leapt_from: float | None = None


class Doubt(NamedTuple):
    """Why the clock is not believed: where it leapt ahead, and when it will be believed again (Unix seconds)."""

    leapt_from: float | None
    until: float


def moment(at: float) -> str:
    """A time in UTC, for people who read the log or the status."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def patience(retention: float) -> float:
    """The longest leap that is believed (seconds): a wrong clock costs at most a quarter of the retention time."""
    return min(LONGEST, retention / 4)


def noted(before: Noted | None, now: float, leap: float) -> Noted:
    """What is known about the clock when it says `now`; `leap` is the longest leap that is believed (seconds)."""
    if before is None or now < before.until - leap:
        return Noted(now, now)
    if now > before.until + leap:
        # If it leaps repeatedly, the first time is the right one.
        was_believed = before.until - before.since >= leap or before.leapt_from is None
        return Noted(now, now, before.until if was_believed else before.leapt_from)
    return before._replace(until=max(before.until, now))


_STORED: Final = Stored(Noted)


@dataclass(slots=True)
class ClockTrust:
    """Kept in the state directory, if there is one."""

    state: Path | None
    clock: Clock
    _noted: Noted | None = None

    def doubt(self, retention: float) -> Doubt | None:
        """Why nothing may be treated as old now; None if the clock is believed. Blocks; raises `OSError`."""
        leap, now = patience(retention), self.clock.now()
        before = self._noted or self._read()
        after = noted(before, now, leap)
        if after != before:
            self._write(after)
        self._noted = after
        return None if now - after.since >= leap else Doubt(after.leapt_from, after.since + leap)

    def _read(self) -> Noted | None:
        if self.state is None:
            return None
        try:
            found = _STORED.load((self.state / CLOCK).read_bytes())
        except (FileNotFoundError, ValueError):
            return None  # nothing is known: the clock is believed after a while
        return found if all(map(math.isfinite, (found.since, found.until))) else None

    def _write(self, value: Noted) -> None:
        if self.state is not None:
            write_durably(self.state, CLOCK, as_json(value).encode())
