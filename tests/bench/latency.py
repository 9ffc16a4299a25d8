"""How long a run that ends by itself waits for its durable verdict, at a steady rate of ends."""

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.figure import (
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    names,
    of_ratio,
    percentile,
)
from tests.bench.fixtures import make
from tests.bench.product import daemon
from tests.bench.record import waits_ms
from tests.bench.scratch import scratch
from tests.bench.yardstick import TWO_STAGES, baseline_latencies, fixture

_SECONDS: Final = 10


def _figure(rate: int, percent: int, most: float) -> Figure:
    return Figure(
        f"latency-{rate}-p{percent}",
        f"latency at {rate}/s, p{percent}",
        "x baseline",
        Goal("at most", most),
        "the daemon waits 2 ms for further changes, and hashes and bundles of runs before take their turns meanwhile",
    )


_FIGURES: Final = {
    50: (_figure(50, 50, 0.7), _figure(50, 99, 1.0)),
    200: (_figure(200, 50, 0.7), _figure(200, 99, 0.8)),
}
"""By the rate of ends a second: the median, and the ninety-ninth percentile."""


def _latency(conditions: Conditions, rate: int) -> list[Measured]:
    disk = conditions.disk
    count = rate * conditions.size(_SECONDS, 2)
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    problems: list[str] = []
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        for _ in range(conditions.repeats):
            theirs.append(baseline_latencies(place, TWO_STAGES, count, rate))
            ours.append(latencies(disk, rate, count, problems))
    measured = []
    for figure, share in zip(_FIGURES[rate], (0.5, 0.99), strict=True):
        daemons = [percentile(sample, share) for sample in ours]
        yardstick = [percentile(sample, share) for sample in theirs]
        beside = f"daemon {statistics.median(daemons):.2f} ms, baseline {statistics.median(yardstick):.2f} ms, n = {count}"
        measured.append(of_ratio(figure, daemons, yardstick, beside, problems))
    return measured


def latencies(disk: Path, rate: float, count: int, problems: list[str], further: str = "") -> list[float]:
    """Milliseconds from the rename of each `exit.json` to the durable verdict. `further` are settings of the daemon."""
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        with daemon(place, further) as running:
            running.wait_running(count)
            begin = time.time()
            renamed_at = fixture("finish", place.runs, count, rate=rate)
            running.wait_judged(count)
            running.settle()
            committed_at = running.record.log(since=begin).committed_at
        problems += running.record.problems(names(count))
    return waits_ms(renamed_at, committed_at)


MEASUREMENTS: Final = tuple(
    Measurement(
        f"latency-{rate}",
        f"from the rename of `exit.json` to the durable verdict while {rate} runs end a second, from the first second on",
        figures,
        partial(_latency, rate=rate),
    )
    for rate, figures in _FIGURES.items()
)
