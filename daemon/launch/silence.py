"""The silence of a run: how long it wrote no output and changed nothing in its run directory."""

from __future__ import annotations

import time

from runward.daemon.rundir.changes import Changes


class Silence:
    """Counts it from now on, by CLOCK_MONOTONIC. `longest` is the limit in seconds."""

    def __init__(self, longest: float, directory: int) -> None:
        self._longest = longest
        self._changes = Changes(directory)
        self._heard_at = self._looked_at = time.monotonic()

    @property
    def due(self) -> float:
        """When to check next whether the silence lasted too long (monotonic seconds)."""
        return self._heard_at + self._longest

    def hear(self, now: float) -> None:
        """There was output."""
        self._heard_at = now

    def is_over(self, now: float) -> bool:
        """Whether it lasted too long. Only then is the directory looked at, so a run that writes costs nothing."""
        if now < self.due:
            return False
        newest = self._changes.newest()
        if newest is not None:
            # However the clock was set meanwhile, the change came after the last look.
            age = min(max(0.0, time.time() - newest), now - self._looked_at)
            self._heard_at = max(self._heard_at, now - age)
        self._looked_at = now
        return now >= self.due
