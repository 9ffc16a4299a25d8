"""Whether the project's own baseline does as much work as the independent reference: else every ratio to it is worth nothing."""

import statistics
from pathlib import Path

from tests.bench.figure import Figure, Goal, percentile
from tests.bench.fixtures import make
from tests.bench.scratch import Scratch, scratch
from tests.bench.yardstick import (
    ONE_A_COMMIT,
    TWO_STAGES,
    baseline_burst,
    baseline_latencies,
    reference_burst,
    reference_latency,
)

_WITHIN = Goal("at most", 0.15)
_RATE = 200.0


def agreement(disk: Path, script: Path, count: int, repeats: int) -> list[Figure]:
    """How far the two medians lie apart, as a share of the reference's."""
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        figures = []
        for name, kind in (
            ("two stages, watchfiles 5/20", TWO_STAGES),
            ("one commit a run, inotify", ONE_A_COMMIT),
        ):
            ours, theirs = [], []
            for _ in range(repeats):
                ours.append(baseline_burst(place, kind, count))
                theirs.append(reference_burst(script, place, kind, count))
            figures.append(_apart(f"agreement: burst of {count:,}, {name}", ours, theirs, "runs/s"))
        figures.append(_latency(place, script, min(count, 600), min(repeats, 3)))
    return figures


def _latency(place: Scratch, script: Path, count: int, repeats: int) -> Figure:
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(percentile(baseline_latencies(place, TWO_STAGES, count, _RATE), 0.5))
        theirs.append(reference_latency(script, place, TWO_STAGES, count, _RATE))
    return _apart(f"agreement: p50 at {_RATE:g}/s, two stages, watchfiles 5/20", ours, theirs, "ms")


def _apart(name: str, ours: list[float], theirs: list[float], unit: str) -> Figure:
    ratio = statistics.median(ours) / statistics.median(theirs)
    pairs = [abs(one / other - 1) for one, other in zip(ours, theirs, strict=True)]
    beside = f"ours {statistics.median(ours):,.4g}, reference {statistics.median(theirs):,.4g} {unit}"
    return Figure(name, abs(ratio - 1), "apart", (min(pairs), max(pairs)), _WITHIN, beside)
