"""How long a run that ends by itself waits for its durable verdict, at a steady rate of ends."""

import statistics
import time
from pathlib import Path

from tests.bench.figure import Figure, Goal, names, of_ratio, percentile
from tests.bench.fixtures import make
from tests.bench.product import daemon
from tests.bench.scratch import scratch
from tests.bench.yardstick import TWO_STAGES, baseline_latencies, fixture

_GOALS = {
    50.0: {0.5: Goal("at most", 1.2), 0.99: Goal("at most", 1.5)},
    200.0: {0.5: Goal("at most", 0.8), 0.99: Goal("at most", 0.8)},
}
RATES = tuple(_GOALS)
"""Ends a second."""


def latency(disk: Path, rate: float, seconds: float, repeats: int) -> list[Figure]:
    """p50 and p99 from the rename of `exit.json` to the durable verdict, against the baseline."""
    count = int(rate * seconds)
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    problems: list[str] = []
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        for _ in range(repeats):
            theirs.append(baseline_latencies(place, TWO_STAGES, count, rate))
            ours.append(latencies(disk, rate, count, problems))
    figures = []
    for share, goal in _GOALS[rate].items():
        measured = [percentile(sample, share) for sample in ours]
        yardstick = [percentile(sample, share) for sample in theirs]
        beside = f"daemon {statistics.median(measured):.2f} ms, baseline {statistics.median(yardstick):.2f} ms, n = {count}"
        name = f"latency at {rate:g}/s, p{share * 100:g}"
        figures.append(of_ratio(name, measured, yardstick, goal, beside, problems))
    return figures


def latencies(disk: Path, rate: float, count: int, problems: list[str]) -> list[float]:
    """Milliseconds from the rename of each `exit.json` to the durable verdict."""
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        with daemon(place) as running:
            running.wait_running(count)
            begin = time.time()
            renamed_at = fixture("finish", place.runs, count, rate=rate)
            running.wait_judged(count)
            running.settle()
            committed_at = running.record.log(since=begin).committed_at
        problems += running.record.problems(names(count))
    # A verdict that the log doesn't tell counts as never.
    return [(committed_at.get(run, float("inf")) - at / 1e9) * 1e3 for run, at in renamed_at.items()]
