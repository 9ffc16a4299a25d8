"""Whether anything is lost or doubled when runs are made and finished at once: while it works, is frozen, or is down."""

import time
from collections.abc import Callable
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, names, of_samples
from tests.bench.fixtures import lacks_nothing
from tests.bench.product import Daemon, daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import fixture

_WITHIN: Final = Goal("at most", 2.0)
_FROZEN_S: Final = 3.0
_WORKS: Final = Figure("storm-working", "storm of 1,000 while it works, from the last rename", "s", _WITHIN)
_FROZEN: Final = Figure("storm-frozen", "storm of 1,000 while it is frozen, from SIGCONT", "s", _WITHIN)
_DOWN: Final = Figure("storm-down", "storm of 1,000 while it is down, from READY", "s", _WITHIN)


def _storms(conditions: Conditions) -> list[Measured]:
    return [
        _storm(conditions, figure, held)
        for figure, held in (
            (_WORKS, _while_it_works),
            (_FROZEN, _while_it_is_frozen),
            (_DOWN, _while_it_is_down),
        )
    ]


def _storm(
    conditions: Conditions, figure: Figure, held: Callable[[Scratch, int], tuple[float, Daemon]]
) -> Measured:
    samples: list[float] = []
    problems: list[str] = []
    count = conditions.size(1_000, 200)
    for _ in range(conditions.repeats):
        with scratch(conditions.disk) as place:
            seconds, stopped = held(place, count)
            samples.append(seconds)
            problems += stopped.record.problems(names(count))
            problems += stopped.record.journal_problems(place.runs, names(count))
    beside = "" if problems else "none lost, none doubled, every verdict right"
    return of_samples(figure, samples, beside, problems)


def _while_it_works(place: Scratch, count: int) -> tuple[float, Daemon]:
    with daemon(place) as running:
        last = max(fixture("storm", place.runs, count).values()) / 1e9
        return _judged_at(running, count) - last, running


def _while_it_is_frozen(place: Scratch, count: int) -> tuple[float, Daemon]:
    with daemon(place) as running:
        running.freeze()
        frozen_at = time.monotonic()
        fixture("storm", place.runs, count)
        time.sleep(max(0.0, frozen_at + _FROZEN_S - time.monotonic()))
        thawed_at = time.time()
        running.thaw()
        return _judged_at(running, count) - thawed_at, running


def _while_it_is_down(place: Scratch, count: int) -> tuple[float, Daemon]:
    with daemon(place):
        pass
    fixture("storm", place.runs, count)
    with daemon(place) as running:
        return _judged_at(running, count) - running.ready_at, running


def _judged_at(running: Daemon, count: int) -> float:
    """When the last run was judged that lacks nothing (Unix seconds). Never, where the log doesn't tell all verdicts."""
    running.wait_judged(count)
    running.settle()
    committed_at = running.record.log(since=0.0).committed_at
    if len(committed_at) != count:
        return float("inf")
    return max(at for run, at in committed_at.items() if lacks_nothing(run))


MEASUREMENTS: Final = (
    Measurement(
        "storm",
        "seconds until 1,000 runs are judged that were made and ended at once, and whether any is lost or doubled",
        (_WORKS, _FROZEN, _DOWN),
        _storms,
    ),
)
