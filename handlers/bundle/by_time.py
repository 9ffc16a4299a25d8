"""The calls of a session in the order of their times, if two sources report them."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import inf

from runward.handlers.bundle.calls import Called, PlanTold, Returned, StepDone, Told
from runward.handlers.model.bundle import Step


def by_time(one: Iterable[Told], other: Iterable[Told]) -> Iterator[Told]:
    """Both in the order of their times, `one` first at the same time. The order within each source stays as it is."""
    for _, told in heapq.merge(_timed(one), _timed(other), key=lambda each: each[0]):
        yield told


def _timed(told: Iterable[Told]) -> Iterator[tuple[float, Told]]:
    """Each with its time: at least that of what comes before it, because a source is not reordered."""
    latest = -inf
    for each in told:
        at = each.at if isinstance(each, Called | Returned | PlanTold | StepDone) else None
        latest = latest if at is None else max(latest, at)
        yield latest, each


def as_shown(one: Iterable[Told], other: Iterable[Told], steps: Iterable[Step]) -> Iterator[Told]:
    """Both in the order in which they were shown step by step, and then by time. Without steps all is by time."""
    rest, others = iter(one), iter(other)
    waiting: list[Told] = []
    before = 0
    for step in steps:
        yield from by_time(_up_to(step.end, rest, waiting), islice(others, step.others - before))
        before = step.others
    yield from by_time(chain(waiting, rest), others)


def _up_to(end: int, rest: Iterator[Told], waiting: list[Told]) -> Iterator[Told]:
    """The calls that are reported before the byte `end`. The first one after that stays in `waiting`."""
    for told in chain([waiting.pop()] if waiting else [], rest):
        if told.place.start + told.place.length > end:
            waiting.append(told)
            return
        yield told
