"""What the daemon takes while nothing happens over more directories than it may watch."""

import time
from pathlib import Path
from typing import Final

from tests.bench.figure import Figure, Goal, of_samples
from tests.bench.fixtures import make, storm
from tests.bench.product import DaemonFailed, daemon
from tests.bench.scratch import scratch

_GOAL: Final = Goal("at most", 1.0)
_RUNNING: Final = 50
_LIMIT: Final = Path("/proc/sys/fs/inotify/max_user_watches")


def beyond(memory: Path, count: int, seconds: float, repeats: int) -> list[Figure]:
    """Share of a core over `seconds`, from a scan to a scan: over `count` finished runs and some that go on.

    It may watch a tenth of the run directories, so its root is watched flat.
    """
    share = max(count // 10, 20) / int(_LIMIT.read_text())
    shares: list[float] = []
    with scratch(memory) as place:
        storm(str(place.runs), range(count))
        make(str(place.runs), range(count, count + _RUNNING))
        settings = f"[watch]\nlimit_share = {share:.9f}\n"
        with daemon(place, settings) as first:
            first.wait_judged(count)
            first.settle()
        for _ in range(repeats):
            with daemon(place, settings) as running:
                running.wait_scanned()
                running.settle()
                if running.record.flat() != 1:
                    raise DaemonFailed("the root is watched to the bottom: nothing is beyond the limit")
                before, begin = running.cpu_s(), time.monotonic()
                time.sleep(seconds)
                shares.append((running.cpu_s() - before) / (time.monotonic() - begin) * 100)
    name = f"idle over {count:,} runs beyond the watch limit, processor"
    beside = f"over {seconds:g} s each, {_RUNNING} more going on"
    return [of_samples(name, shares, "% of a core", _GOAL, beside)]
