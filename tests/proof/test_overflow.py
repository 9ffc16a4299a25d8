"""The kernel's queue of notifications overflows while the daemon is frozen: everything is found, and it is counted."""

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.proof.place import NEVER_SCANNED, Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
FROZEN = 3.0


def _counted(place: Place, what: str) -> int:
    """What the daemon's coverage meter says."""
    coverage = place.status().get("coverage")
    return int(coverage[what]) if isinstance(coverage, dict) else 0


def _overflow(place: Place, runs: int, files: int) -> Counter[str]:
    """Fill the queue of a frozen daemon with files in run directories that it knows, then end those runs.

    Returns how many runs have which status at the end, two further ones among them.
    """
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
        wait_for(lambda: _counted(place, "overflows"), "a counted overflow")
        wait_for(lambda: _counted(place, "found_by_scan"), "ends that the queue had lost and the scan found")
        # A freeze outside the wait between two beats leaves no gap there; the overflow itself is told in any case.
        wait_for(
            lambda: place.log("watch.gap") or place.log("watch.lost"), "a line in the log about what was lost"
        )
        # The watch works as before.
        place.finished_run("made-later")
        place.wait_ended(runs + 2)
        return Counter(place.statuses().values())


def _place_in_memory(in_memory: Path, forks: Forks, name: str) -> Place:
    if not QUEUE.exists():
        pytest.skip("this system has no inotify")
    return Place(in_memory / name, forks)


def test_what_an_overflowed_queue_lost_is_found_and_counted(in_memory: Path, forks: Forks) -> None:
    files = int(QUEUE.read_text())
    if files > 50_000:
        pytest.skip("the queue of this system is too long to fill quickly: make prove does")
    place = _place_in_memory(in_memory, forks, "overflow")
    assert _overflow(place, 40, files) == {"completed": 42}


@pytest.mark.prove
def test_what_100_000_files_make_the_queue_lose_is_found_and_counted(in_memory: Path, forks: Forks) -> None:
    place = _place_in_memory(in_memory, forks, "overflow-of-100000")
    assert _overflow(place, 400, 100_000) == {"completed": 402}
