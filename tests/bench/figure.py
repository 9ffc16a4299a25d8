"""One figure of the benchmark: what was measured, what it has to be, and whether it is."""

import os
import statistics
from dataclasses import dataclass, field
from typing import Literal

from tests.bench.fixtures import run_name


@dataclass(frozen=True, slots=True)
class Goal:
    """The bound that the median has to keep; `aim` is what it should reach."""

    side: Literal["at least", "at most"]
    bound: float
    aim: float | None = None

    def kept_by(self, value: float) -> bool:
        return value >= self.bound if self.side == "at least" else value <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.side == "at least" else "≤"
        return f"{sign} {self.bound:g}" + (f" (aim {self.aim:g})" if self.aim is not None else "")


@dataclass(frozen=True, slots=True)
class Figure:
    """A named value with its unit; `spread` is its lowest and highest sample, `beside` what explains it.

    `problems` are runs that were lost, doubled or judged wrongly while it was measured: no value makes up for them.
    """

    name: str
    value: float
    unit: str
    spread: tuple[float, float]
    goal: Goal | None = None
    beside: str = ""
    problems: list[str] = field(default_factory=list)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def met(self) -> bool:
        return not self.problems and (self.goal is None or self.goal.kept_by(self.value))


def of_samples(
    name: str,
    samples: list[float],
    unit: str,
    goal: Goal | None,
    beside: str = "",
    problems: list[str] | None = None,
) -> Figure:
    """The median of samples."""
    spread = (min(samples), max(samples))
    return Figure(name, statistics.median(samples), unit, spread, goal, beside, problems or [])


def of_ratio(
    name: str,
    measured: list[float],
    yardstick: list[float],
    goal: Goal | None,
    beside: str = "",
    problems: list[str] | None = None,
    unit: str = "x baseline",
) -> Figure:
    """The ratio of two medians; the spread is that of the pairs that were measured next to each other."""
    pairs = [ours / theirs for ours, theirs in zip(measured, yardstick, strict=True)]
    value = statistics.median(measured) / statistics.median(yardstick)
    return Figure(name, value, unit, (min(pairs), max(pairs)), goal, beside, problems or [])


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of them don't exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def names(count: int, first: int = 0) -> list[str]:
    """The names of so many runs."""
    return [run_name(index) for index in range(first, first + count)]
