"""A home directory full of transcripts: until all are recorded for the first time, memory, and a restart over them."""

import statistics
import time
from typing import Final

from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_samples
from tests.bench.logs import make_finished, on_the_disk
from tests.bench.product import daemon, further_root
from tests.bench.scratch import scratch

_OF: Final = "home of 3,000 transcripts, 0.66 GB"
_FIRST_SIGHT: Final = Figure(
    "home-first",
    f"{_OF}, first sight",
    "s",
    Goal("at most", 18.0),
    "the goal is in seconds, and was set on a faster machine",
)
_MEMORY: Final = Figure("home-memory", f"{_OF}, memory at most", "MB", Goal("at most", 150.0))
_RESTART: Final = Figure("home-restart", f"{_OF}, restart", "s", Goal("at most", 1.5))
_SIZE: Final = 200_000
"""Bytes of each transcript."""
_PROJECTS: Final = 100


def _home(conditions: Conditions) -> list[Measured]:
    """Seconds from the execution of the daemon, and its greatest resident memory over all that is measured."""
    count = conditions.size(3_000, 300)
    with scratch(conditions.disk) as place:
        root = place.fresh("projects")
        logs = [make_finished(root, seed, _SIZE, seed % _PROJECTS) for seed in range(count)]
        on_the_disk(root)
        settings = further_root(root, "record")
        first, restarts, ready, ready_cpu, peaks = [], [], [], [], []
        for _ in range(conditions.repeats):
            place.fresh("state")
            with daemon(place, settings) as running:
                running.wait_judged(count)
                first.append(time.time() - running.started_at)
                running.settle()
                peaks.append(running.peak_mb())
            with daemon(place, settings) as running:
                scanned_at = running.wait_scanned().last_scan_at
                assert scanned_at is not None
                restarts.append(scanned_at - running.started_at)
                ready.append(running.ready_at - running.started_at)
                ready_cpu.append(running.ready_cpu_s)
                peaks.append(running.peak_mb())
        problems = running.record.transcript_problems(len(logs))
    beside = f"READY after {statistics.median(ready):.2f} s, {statistics.median(ready_cpu):.2f} s of processor time"
    spread = (min(peaks), max(peaks))
    return [
        of_samples(_FIRST_SIGHT, first, problems=problems),
        Measured(_MEMORY, max(peaks), spread, values={"measured": peaks}),
        of_samples(_RESTART, restarts, beside, problems),
    ]


MEASUREMENTS: Final = (
    Measurement(
        "home",
        "a home full of transcripts of 200 kB, from the daemon's execution until all are recorded, and a restart over them",
        (_FIRST_SIGHT, _MEMORY, _RESTART),
        _home,
    ),
)
