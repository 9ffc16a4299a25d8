"""Whether the daemon's memory stays flat over bursts whose runs are deleted in between."""

import shutil
import time
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, names
from tests.bench.product import daemon
from tests.bench.scratch import scratch
from tests.bench.yardstick import fixture

_FLAT: Final = Figure(
    "memory",
    "memory over 6 bursts of 2,000, most against first",
    "x first",
    Goal("at most", 1.05),
    "the C library keeps more free memory between pieces in use; over the first five bursts that grows, then no more",
)

_UPKEEP_S: Final = 3.0
"""Seconds of rest in which the daemon's upkeep comes round twice: it gives back what a burst took."""


def _flat(conditions: Conditions) -> list[Measured]:
    """The most that is resident after any burst, against that after the first one; one series, for it is long."""
    resident: list[float] = []
    count, bursts = conditions.size(2_000, 200), conditions.size(6, 2)
    with scratch(conditions.memory) as place:
        with daemon(place) as running:
            for burst in range(bursts):
                first = burst * count
                fixture("make", place.runs, count, first=first)
                running.wait_running(count)
                fixture("finish", place.runs, count, first=first)
                running.wait_judged(first + count)
                running.settle()
                for run in names(count, first):
                    shutil.rmtree(place.runs / run)
                running.settle()
                time.sleep(_UPKEEP_S)
                resident.append(running.usage().rss_mb)
        problems = running.record.problems(names(bursts * count))
    ratios = [megabytes / resident[0] for megabytes in resident]
    beside = "resident MB after each: " + ", ".join(f"{megabytes:.1f}" for megabytes in resident)
    spread = (min(ratios), max(ratios))
    return [Measured(_FLAT, max(ratios), spread, beside, problems, {"measured": resident})]


MEASUREMENTS: Final = (
    Measurement(
        "memory", "what the daemon keeps after bursts whose runs are deleted in between", (_FLAT,), _flat
    ),
)
