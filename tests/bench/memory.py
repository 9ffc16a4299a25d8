"""Whether the daemon's memory stays flat over bursts whose runs are deleted in between."""

import shutil
import time
from pathlib import Path
from typing import Final

from tests.bench.figure import Figure, Goal, names
from tests.bench.product import daemon
from tests.bench.scratch import scratch
from tests.bench.yardstick import fixture

_FLAT = Goal("at most", 1.05)

_UPKEEP_S: Final = 3.0
"""Seconds of rest in which the daemon's upkeep comes round twice: it gives back what a burst took."""


def flat(memory: Path, count: int, bursts: int) -> list[Figure]:
    """The most that is resident after any burst, against that after the first one; one series, for it is long."""
    resident: list[float] = []
    with scratch(memory) as place:
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
    name = f"memory over {bursts} bursts of {count:,}, most against first"
    return [Figure(name, max(ratios), "x first", (min(ratios), max(ratios)), _FLAT, beside, problems)]
