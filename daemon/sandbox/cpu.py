"""The CPU time of code, including all code that it calls, as the kernel counts it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

ENDING_S: Final = 0.01
"""Seconds of CPU time that are kept for the end of code: what it uses before the daemon looks again, and its teardown.

They are counted as well, so code that was stopped when the limit was reached would exceed it.
"""


@dataclass(slots=True)
class CpuTime:
    """The CPU time that workers used together (seconds), and their limit; None for no limit.

    A worker is stopped while it waits for the answer to a call, so only one of them uses CPU time at any moment.
    """

    most: float | None = None
    ended: float = 0.0
    _alive: list[Callable[[], float]] = field(default_factory=list)

    @property
    def used(self) -> float:
        """The seconds so far."""
        return self.ended + sum(so_far() for so_far in self._alive)

    @property
    def is_used_up(self) -> bool:
        """Whether no CPU time is left."""
        return self.left <= 0.0

    @property
    def left(self) -> float:
        """The seconds for which code may still run; infinite without a limit."""
        return math.inf if self.most is None else max(0.0, self.most - ENDING_S - self.used)

    def begin(self, so_far: Callable[[], float]) -> None:
        """A worker begins its job; `so_far` returns what it has used."""
        self._alive.append(so_far)

    def end(self, so_far: Callable[[], float], seconds: float) -> None:
        """Record that this worker has ended, and all that it used."""
        self._alive.remove(so_far)
        self.ended += seconds
