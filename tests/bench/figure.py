"""The figures of the benchmark: what is declared of each, and what was measured.

A module that measures declares its figures and how to measure them, as `Measurement`s; `measurements.py` lists them all.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
    """What is declared of a figure: its name, what it tells, its unit and its goal, if it has one.

    `missed` says why the goal is not reached. It is shown only where it isn't. `peer` is the distribution that it is held
    against, if that is another program.
    """

    name: str
    what: str
    unit: str
    goal: Goal | None = None
    missed: str = ""
    peer: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure's value; `spread` is its lowest and highest sample, `beside` what explains it, `values` are all samples.

    `problems` are runs that were lost, doubled or judged wrongly while it was measured: no value makes up for them.
    """

    figure: Figure
    value: float
    spread: tuple[float, float]
    beside: str = ""
    problems: Sequence[str] = ()
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return not self.problems and (self.figure.goal is None or self.figure.goal.kept_by(self.value))


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A figure that could not be measured here, and why."""

    figure: Figure
    why: str


Outcome = Measured | NotMeasured


class CannotMeasure(Exception):
    """This machine lacks something that all figures of a measurement need; the message says what."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what to measure: a directory on the disk, one in memory, and how often. `is_quick` measures little."""

    disk: Path
    memory: Path
    repeats: int
    is_quick: bool

    def size(self, full: int, quick: int) -> int:
        """How much of something there is to be."""
        return quick if self.is_quick else full


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures that are measured together, in less than three minutes; `what` says how."""

    name: str
    what: str
    figures: tuple[Figure, ...]
    measure: Callable[[Conditions], Sequence[Outcome]]


def of_samples(
    figure: Figure, samples: Sequence[float], beside: str = "", problems: Sequence[str] = ()
) -> Measured:
    """The median of samples."""
    spread = (min(samples), max(samples))
    return Measured(figure, statistics.median(samples), spread, beside, problems, {"measured": samples})


def of_ratio(
    figure: Figure,
    measured: Sequence[float],
    yardstick: Sequence[float],
    beside: str = "",
    problems: Sequence[str] = (),
) -> Measured:
    """The ratio of two medians; the spread is that of the pairs that were measured next to each other."""
    pairs = [ours / theirs for ours, theirs in zip(measured, yardstick, strict=True)]
    value = statistics.median(measured) / statistics.median(yardstick)
    values = {"measured": measured, "yardstick": yardstick}
    return Measured(figure, value, (min(pairs), max(pairs)), beside, problems, values)


def of_difference(
    figure: Figure,
    measured: Sequence[float],
    yardstick: Sequence[float],
    beside: str = "",
    problems: Sequence[str] = (),
) -> Measured:
    """The difference of two medians; the spread is that of the pairs that were measured next to each other."""
    pairs = [ours - theirs for ours, theirs in zip(measured, yardstick, strict=True)]
    value = statistics.median(measured) - statistics.median(yardstick)
    values = {"measured": measured, "yardstick": yardstick}
    return Measured(figure, value, (min(pairs), max(pairs)), beside, problems, values)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them don't exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def names(count: int, first: int = 0) -> list[str]:
    """The names of so many runs."""
    return [run_name(index) for index in range(first, first + count)]
