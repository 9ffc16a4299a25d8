"""The kernel's queue of notifications overflows while the daemon is frozen: everything is found, and it is counted.

watchfiles says nothing of an overflow: the gap in the daemon's own heartbeat stands for it.
"""

import os
import time
from pathlib import Path

import pytest
from tests.proof.place import NEVER_SCANNED, Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
FROZEN = 3.0


def _counted(place: Place, what: str) -> int:
    """What the daemon's coverage meter says."""
    coverage = place.status()["coverage"]
    assert isinstance(coverage, dict)
    return int(coverage[what])


def _overflow(place: Place, runs: int, files: int) -> None:
    """Fill the queue of a frozen daemon with files in run directories that it knows, then end some of those runs."""
    place.set_up(further=NEVER_SCANNED)
    for number in range(runs):
        place.start_run(f"run-{number}", [("report.md", True)])
    with place.serving() as daemon:
        wait_for(lambda: len(place.statuses()) == runs, f"{runs} starts")
        daemon.stop()
        frozen = time.monotonic()
        for number in range(runs):
            directory = place.runs / f"run-{number}"
            for file in range(files // runs):
                os.close(os.open(directory / f"scratch-{file}", os.O_WRONLY | os.O_CREAT))
        for number in range(runs):
            directory = place.runs / f"run-{number}"
            (directory / "artifacts" / "report.md").write_text("done\n")
            place.finish_run(directory)
        place.finished_run("made-meanwhile")
        time.sleep(max(0.0, frozen + FROZEN - time.monotonic()))
        daemon.go_on()
        place.wait_ended(runs + 1)
        assert set(place.statuses().values()) == {"completed"}
        wait_for(lambda: _counted(place, "overflows"), "a counted overflow")
        wait_for(lambda: _counted(place, "found_by_scan"), "ends that the queue had lost and the scan found")
        assert place.log("watch.gap")
        # The watch works as before.
        place.finished_run("made-later")
        place.wait_ended(runs + 2)


def _place_in_memory(in_memory: Path, forks: Forks, name: str) -> Place:
    if not QUEUE.exists():
        pytest.skip("this system has no inotify")
    return Place(in_memory / name, forks)


def test_what_an_overflowed_queue_lost_is_found_and_counted(in_memory: Path, forks: Forks) -> None:
    files = int(QUEUE.read_text())
    if files > 50_000:
        pytest.skip("the queue of this system is too long to fill quickly: make prove does")
    place = _place_in_memory(in_memory, forks, "overflow")
    _overflow(place, 40, files)


@pytest.mark.prove
def test_what_100_000_files_make_the_queue_lose_is_found_and_counted(in_memory: Path, forks: Forks) -> None:
    _overflow(_place_in_memory(in_memory, forks, "overflow-of-100000"), 400, 100_000)
