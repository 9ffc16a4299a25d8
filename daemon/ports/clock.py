"""The ports of time and chance."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time in Unix seconds, and a time that only moves forward, suspends included."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Randomness(Protocol):
    """Where tokens come from."""

    def token(self) -> str: ...
