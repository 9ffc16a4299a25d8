"""A home directory full of transcripts: until all are recorded for the first time, memory, and a restart over them."""

import statistics
import time
from pathlib import Path
from typing import Final

from tests.bench.figure import Figure, Goal, of_samples
from tests.bench.logs import make_finished, on_the_disk
from tests.bench.product import daemon, further_root
from tests.bench.scratch import scratch

_FIRST_SIGHT: Final = Goal("at most", 60.0)
_MEMORY: Final = Goal("at most", 150.0)
_RESTART: Final = Goal("at most", 1.5)
_SIZE: Final = 200_000
"""Bytes of each transcript."""
_PROJECTS: Final = 100


def home(disk: Path, count: int, repeats: int) -> list[Figure]:
    """Seconds from the execution of the daemon, and its greatest resident memory over all that is measured."""
    with scratch(disk) as place:
        root = place.fresh("projects")
        logs = [make_finished(root, seed, _SIZE, seed % _PROJECTS) for seed in range(count)]
        on_the_disk(root)
        settings = further_root(root, "record")
        first, restarts, ready, ready_cpu, peaks = [], [], [], [], []
        for _ in range(repeats):
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
                running.settle()
                peaks.append(running.peak_mb())
        problems = running.record.transcript_problems(len(logs))
    name = f"home of {count:,} transcripts, {sum(log.size for log in logs) / 1e9:.2g} GB"
    told = f"READY after {statistics.median(ready):.2f} s, {statistics.median(ready_cpu):.2f} s of processor time"
    return [
        of_samples(f"{name}, first sight", first, "s", _FIRST_SIGHT, problems=problems),
        Figure(f"{name}, memory at most", max(peaks), "MB", (min(peaks), max(peaks)), _MEMORY),
        of_samples(f"{name}, restart", restarts, "s", _RESTART, told, problems),
    ]
