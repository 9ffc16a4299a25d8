"""Whether the project's own baseline does as much work as the independent reference: else every ratio to it is worth nothing."""

import statistics
from pathlib import Path
from typing import Final

from tests.bench.figure import CannotMeasure, Conditions, Figure, Goal, Measured, Measurement, percentile
from tests.bench.fixtures import make
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import (
    ONE_A_COMMIT,
    TWO_STAGES,
    baseline_burst,
    baseline_latencies,
    reference,
    reference_burst,
    reference_latency,
)

_WITHIN: Final = Goal("at most", 0.15)
_RATE: Final = 200.0
_TWO_STAGES: Final = Figure(
    "agreement-two-stages", "agreement: burst of 1,000, two stages, watchfiles 5/20", "apart", _WITHIN
)
_ONE_A_COMMIT: Final = Figure(
    "agreement-one-a-commit", "agreement: burst of 1,000, one commit a run, inotify", "apart", _WITHIN
)
_LATENCY: Final = Figure(
    "agreement-latency", "agreement: p50 at 200/s, two stages, watchfiles 5/20", "apart", _WITHIN
)


def _agreement(conditions: Conditions) -> list[Measured]:
    script = reference()
    if script is None:
        raise CannotMeasure("RUNWARD_TEST_MATERIAL names no directory with bench/raw_pipeline.py")
    count = conditions.size(1_000, 200)
    repeats = conditions.repeats if conditions.is_quick else max(9, conditions.repeats)
    with scratch(conditions.disk) as place:
        make(str(place.runs), range(count))
        measured = []
        for figure, kind in ((_TWO_STAGES, TWO_STAGES), (_ONE_A_COMMIT, ONE_A_COMMIT)):
            ours, theirs = [], []
            for _ in range(repeats):
                ours.append(baseline_burst(place, kind, count))
                theirs.append(reference_burst(script, place, kind, count))
            measured.append(_apart(figure, ours, theirs, "runs/s"))
        measured.append(_latency(place, script, min(count, 600), conditions.repeats))
    return measured


def _latency(place: Scratch, script: Path, count: int, repeats: int) -> Measured:
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(percentile(baseline_latencies(place, TWO_STAGES, count, _RATE), 0.5))
        theirs.append(reference_latency(script, place, TWO_STAGES, count, _RATE))
    return _apart(_LATENCY, ours, theirs, "ms")


def _apart(figure: Figure, ours: list[float], theirs: list[float], unit: str) -> Measured:
    ratio = statistics.median(ours) / statistics.median(theirs)
    pairs = [abs(one / other - 1) for one, other in zip(ours, theirs, strict=True)]
    beside = f"ours {statistics.median(ours):,.4g}, reference {statistics.median(theirs):,.4g} {unit}"
    values = {"measured": ours, "yardstick": theirs}
    return Measured(figure, abs(ratio - 1), (min(pairs), max(pairs)), beside, (), values)


MEASUREMENTS: Final = (
    Measurement(
        "agreement",
        "how far the medians of the baseline and of an independent reference lie apart, as a share of the reference's",
        (_TWO_STAGES, _ONE_A_COMMIT, _LATENCY),
        _agreement,
    ),
)
