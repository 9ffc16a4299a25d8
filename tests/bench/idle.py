"""What the daemon takes while nothing happens over runs that have begun: from the moment when it knows them all on, and later.

The first looks at the runs are not part of it: they are what a begin costs, and belong to the bursts. What follows from
them is: the journals of a thousand runs are begun.

Three daemons with runs of their own are measured side by side, for one after the other would take six minutes. They idle,
so two cores have room for all; what their caches take from each other counts against them.
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio, of_samples
from tests.bench.fixtures import make
from tests.bench.product import daemon
from tests.bench.scratch import scratch
from tests.bench.usage import Usage, usage

_OVER: Final = "idle over 1,000 running runs"
_SHARE: Final = "% of a core"
_FOLLOWS: Final = "from the moment when all are known on: what follows from 1,000 begins is part of it, such as their journals"
_FIRST: Final = Figure(
    "idle-first", f"{_OVER}, first 20 s after their begin", _SHARE, Goal("at most", 0.5), _FOLLOWS
)
_MINUTE: Final = Figure("idle-minute", f"{_OVER}, first minute", _SHARE, Goal("at most", 0.3), _FOLLOWS)
_LATER: Final = Figure(
    "idle-later",
    f"{_OVER}, later",
    _SHARE,
    Goal("at most", 0.2, aim=0.1),
    "traces of running runs are compared every four seconds, and all run directories every 30 s",
)
_MODULES: Final = "the modules of what runs need are loaded"
_MEMORY: Final = Figure("idle-memory", f"{_OVER}, memory", "MB", Goal("at most", 60.0), _MODULES)
_AGAINST_IMPORTS: Final = Figure(
    "idle-memory-ratio",
    f"{_OVER}, memory against bare imports",
    "x bare imports",
    Goal("at most", 1.8),
    _MODULES,
)
_ALONE: Final = Figure(
    "idle-alone",
    "memory of an idle daemon without runs",
    "MB",
    Goal("at most", 50.0),
    "asyncio, anyio, click, structlog, msgspec and 300 modules of our own",
)
_PACKAGES: Final = "anyio, click, msgspec, structlog, zstandard"


def _idle(conditions: Conditions) -> list[Measured]:
    count = conditions.size(1_000, 100)
    marks = (0.0, 2.0, 4.0, 6.0) if conditions.is_quick else (0.0, 20.0, 60.0, 140.0)
    used: list[list[Usage]] = []
    at: list[float] = []
    with ExitStack() as stack:
        places = [stack.enter_context(scratch(conditions.memory)) for _ in range(conditions.repeats)]
        running = [stack.enter_context(daemon(place)) for place in places]
        imports = [bare_imports(_PACKAGES).rss_mb for _ in running]
        for place in places:
            make(str(place.runs), range(count))
        for each in running:
            each.wait_running(count)
        begin = time.monotonic()
        for mark in marks:
            time.sleep(max(0.0, begin + mark - time.monotonic()))
            at.append(time.monotonic())
            used.append([each.usage() for each in running])

    def shares(since: int, until: int) -> list[float]:
        """Percent of a core between two marks, by daemon."""
        return [
            (after.cpu_s - before.cpu_s) / (at[until] - at[since]) * 100
            for before, after in zip(used[since], used[until], strict=True)
        ]

    resident = [each.rss_mb for each in used[-1]]
    beside = (
        f"resident {resident[-1]:.1f} MB against {imports[-1]:.1f}, proportional {used[-1][-1].pss_mb:.1f}"
    )
    return [
        of_samples(_FIRST, shares(0, 1)),
        of_samples(_MINUTE, shares(0, 2)),
        of_samples(_LATER, shares(2, 3)),
        of_samples(_MEMORY, resident, beside),
        of_ratio(_AGAINST_IMPORTS, resident, imports, beside),
    ]


def _alone(conditions: Conditions) -> list[Measured]:
    resident = []
    for _ in range(conditions.repeats):
        with scratch(conditions.memory) as place, daemon(place) as running:
            running.wait_scanned()
            running.settle()  # it is memory that is measured, and that of an idle daemon
            resident.append(running.usage().rss_mb)
    return [of_samples(_ALONE, resident)]


def bare_imports(packages: str) -> Usage:
    """A process that imports these packages and does nothing else."""
    program = f"import {packages}; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        taken = usage(process.pid)
        process.communicate(b"\n")
    return taken


MEASUREMENTS: Final = (
    Measurement(
        "idle",
        "processor time and memory of daemons over 1,000 runs each that have begun and do nothing, from their begin on",
        (_FIRST, _MINUTE, _LATER, _MEMORY, _AGAINST_IMPORTS),
        _idle,
    ),
    Measurement("idle-alone", "what a daemon holds that has nothing to do", (_ALONE,), _alone),
)
