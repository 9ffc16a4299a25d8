"""The calls of a session in the order of their times, if two sources tell of them."""

import heapq
from collections.abc import Iterable, Iterator
from math import inf

from runward.handlers.bundle.calls import Called, PlanTold, Returned, StepDone, Told


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
