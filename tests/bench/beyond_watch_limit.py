"""What the daemon takes while nothing happens over more directories than it may watch."""

import time
from pathlib import Path
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_samples
from tests.bench.fixtures import finished_with_nothing, make
from tests.bench.product import DaemonFailed, daemon
from tests.bench.scratch import scratch

_PROCESSOR: Final = Figure(
    "beyond",
    "idle over 20,000 runs beyond the watch limit, processor",
    "% of a core",
    Goal("at most", 1.0),
    "what changes below a flat root is not reported, so its directories are listed and compared again and again",
)
_RUNNING: Final = 50
_LIMIT: Final = Path("/proc/sys/fs/inotify/max_user_watches")


def _beyond(conditions: Conditions) -> list[Measured]:
    count, seconds = conditions.size(20_000, 1_000), conditions.size(35, 10)
    share = max(count // 10, 20) / int(_LIMIT.read_text())
    shares: list[float] = []
    with scratch(conditions.memory) as place:
        finished_with_nothing(str(place.runs), range(count))
        make(str(place.runs), range(count, count + _RUNNING))
        settings = f"[watch]\nlimit_share = {share:.9f}\n"
        with daemon(place, settings, bundles=False) as first:
            first.wait_judged(count)
            first.settle()
        for _ in range(conditions.repeats):
            with daemon(place, settings, bundles=False) as running:
                running.wait_scanned()
                if running.record.flat() != 1:
                    raise DaemonFailed("the root is watched to the bottom: nothing is beyond the limit")
                before, begin = running.cpu_s(), time.monotonic()
                time.sleep(seconds)
                shares.append((running.cpu_s() - before) / (time.monotonic() - begin) * 100)
    return [of_samples(_PROCESSOR, shares, f"over {seconds} s each, {_RUNNING} more going on")]


MEASUREMENTS: Final = (
    Measurement(
        "beyond",
        "processor time from the first scan on, over 20,000 finished runs of which a tenth may be watched, so its root is flat",
        (_PROCESSOR,),
        _beyond,
    ),
)
