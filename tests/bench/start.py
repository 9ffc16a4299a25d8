"""Starting over runs that are finished and known, against the least that any program must do: list them and watch them.

The baseline is a process that lists the root, asks each run for its `exit.json` and sets up the same watcher; its own
imports don't count, those of the daemon do.

A daemon judges the first five hundred runs. The others are known to its store by copies of one's rows, for judging 60,000 takes
longer than everything that is measured. No start records an event: each copy is what a daemon would have recorded.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.copied_rows import copy_finished
from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio
from tests.bench.fixtures import finished_with_nothing, run_name
from tests.bench.product import Daemon, DaemonFailed, daemon
from tests.bench.scratch import scratch

_GOAL: Final = Goal("at most", 1.5)
_MISSED: Final = "the daemon's imports, each watch in Python, and the comparison of each run's documents"
_WALL: Final = Figure("start-wall", "start over 60,000 known runs, wall", "x scan and watch", _GOAL, _MISSED)
_PROCESSOR: Final = Figure(
    "start-processor", "start over 60,000 known runs, processor", "x scan and watch", _GOAL, _MISSED
)
_JUDGED: Final = 500
_ALL_WATCHES: Final = "[watch]\nlimit_share = 1.0\n"
_SYNCED_WITHIN_S: Final = 60.0

_BARE: Final = """\
import json, os, sys, time
from watchfiles._rust_notify import RustNotify
root = sys.argv[1]
wall, processor = time.perf_counter(), time.process_time()
found = 0
for entry in os.scandir(root):
    if entry.is_dir(follow_symlinks=False):
        entry.stat(follow_symlinks=False)
        os.stat(f"{root}/{entry.name}/exit.json")
        found += 1
scanned = time.perf_counter() - wall
watcher = RustNotify([root], False, False, 0, True, True)
said = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor, "scan": scanned}
print(json.dumps(said | {"found": found}))
"""


def _start(conditions: Conditions) -> list[Measured]:
    """From its execution until the daemon has compared all with what it knows, wall time and processor time.

    The runs left nothing and have no bundles: hashing and writing those takes longer than all else here, and a start opens
    neither.
    """
    count = conditions.size(60_000, 1_000)
    with scratch(conditions.memory) as place:
        finished_with_nothing(str(place.runs), range(_JUDGED))
        with daemon(place, _ALL_WATCHES, bundles=False) as first:
            first.wait_judged(_JUDGED)
            first.settle()
            events = first.record.events()
            first.record.close()
        finished_with_nothing(str(place.runs), range(_JUDGED, count))
        copies = [run_name(index) for index in range(_JUDGED, count)]
        copy_finished(place.directory / "state" / "runward.db", place.runs, run_name(0), copies)
        wall, processor, ready = [], [], []
        bare: list[dict[str, float]] = []
        for _ in range(conditions.repeats):
            bare.append(_bare(place.runs))
            with daemon(place, _ALL_WATCHES, bundles=False) as running:
                seconds, spent = _started(running)
                wall.append(seconds)
                processor.append(spent)
                ready.append(running.ready_at - running.started_at)
        judged, more = running.record.judged(), running.record.events() - events
    if (judged, more) != (count, 0):
        raise DaemonFailed(f"{judged} runs are judged, not {count}; {more} events were recorded by starts")
    beside = f"READY after {sorted(ready)[len(ready) // 2]:.2f} s; bare scan {bare[-1]['scan']:.2f} s, with the watch {bare[-1]['wall']:.2f} s"
    return [
        of_ratio(_WALL, wall, [each["wall"] for each in bare], beside),
        of_ratio(_PROCESSOR, processor, [each["processor"] for each in bare], beside),
    ]


def _bare(root: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", _BARE, str(root)], capture_output=True, check=True)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def _started(running: Daemon) -> tuple[float, float]:
    """Seconds from its execution until its first scan was done, and processor time; what it still does then counts for both."""
    scan = running.wait_scanned()
    assert scan.last_scan_at is not None
    then = running.cpu_s()
    running.settle()
    return scan.last_scan_at - running.started_at + (running.cpu_s() - then), running.cpu_s()


MEASUREMENTS: Final = (
    Measurement(
        "start",
        "from the execution of a daemon that knows 60,000 finished runs until its first scan and all that follows is done",
        (_WALL, _PROCESSOR),
        _start,
    ),
)
