"""How fast a large artifact is hashed beside bare SHA-256, and what the verdicts of other runs notice of it.

While runs end at a steady rate, this process hashes a file by itself and the daemon hashes it as an artifact, in
turn. Both have the same neighbours then, and the file in memory. Verdicts on runs that ended in neither of these
stretches are the usual ones.
"""

import hashlib
import os
import statistics
import time
from pathlib import Path
from typing import Final

from tests.bench.ends import RATE, Ends, Stretch
from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, names, of_ratio
from tests.bench.fixtures import finish, make, make_large, run_name
from tests.bench.product import Daemon, DaemonFailed, daemon
from tests.bench.scratch import scratch

from runward.daemon.engine.background import PATIENCE

_SIZE: Final = 512 << 20
_TURN_S: Final = 6.0
"""Seconds of runs that end for each turn: the daemon gathers for a second before it hashes, and rests are measured too."""
_LEAD_S: Final = PATIENCE + 1.0
"""Seconds of runs that end before the first turn: until then the daemon waits for a pause before it hashes."""
_PAUSE_S: Final = 1.0
_HASHED_WITHIN_S: Final = 60.0
_SPEED: Final = Figure("hash-speed", "hash of 512 MB, speed", "x bare", Goal("at least", 0.9))
_LATENCY: Final = Figure(
    "hash-latency", "hash of 512 MB, others' p50 at 50/s", "x usual", Goal("at most", 1.5)
)


def _hashing(conditions: Conditions) -> list[Measured]:
    """One daemon, whose background work has waited for a pause in vain: the speed, and the p50 of each turn."""
    disk, turns, problems = conditions.disk, conditions.size(9, 2), list[str]()
    count = int(RATE * (_LEAD_S + _TURN_S * turns))
    with scratch(disk) as place:
        file = _large_file(place.directory / "large")
        make(str(place.runs), range(count))
        for turn in range(turns):
            make_large(str(place.runs), count + turn, str(file))
        with daemon(place) as running:
            running.wait_running(count + turns)
            begin = time.time()
            ends = Ends(place.runs, count)
            time.sleep(_LEAD_S)
            bare = [_turn(running, file, place.runs, count + turn) for turn in range(turns)]
            ends.join()
            running.wait_judged(count + turns)
            running.settle()
            log = running.record.log(since=begin)
        problems += running.record.problems(names(count + turns))
    large = [each for each in log.hashed if each.bytes >= _SIZE]
    if len(large) != turns:
        raise DaemonFailed(f"the log tells of {len(large)} large files that were hashed, and not of {turns}")
    hashed = [Stretch(each.at - each.took_s, each.at) for each in large]
    waits = ends.waits(log.committed_at, hashed, bare)
    theirs, ours = [_speed(each.end - each.begin) for each in bare], [_speed(each.took_s) for each in large]
    speed = (
        f"daemon {statistics.median(ours):.0f} MB/s, bare {statistics.median(theirs):.0f} MB/s, n = {turns}"
    )
    usual = statistics.median(waits.usual)
    beside = [statistics.median(ends.waits(log.committed_at, [each]).beside) for each in hashed]
    latency = f"beside {statistics.median(beside):.2f} ms, usual {usual:.2f} ms, n = {len(waits.beside)}"
    return [
        of_ratio(_SPEED, ours, theirs, speed, problems),
        of_ratio(_LATENCY, beside, [usual] * turns, latency, problems),
    ]


def _turn(running: Daemon, file: Path, root: Path, number: int) -> Stretch:
    """Hash the file here, then have the daemon hash it; when it was hashed here."""
    begin = time.time()
    with file.open("rb") as opened:
        hashlib.file_digest(opened, "sha256")
    end = time.time()
    finish(str(root), range(number, number + 1))
    give_up = time.monotonic() + _HASHED_WITHIN_S
    while not any(each.bytes >= _SIZE for each in running.record.log(since=end).hashed):
        if time.monotonic() > give_up:
            raise DaemonFailed(f"{run_name(number)} was not hashed within {_HASHED_WITHIN_S:.0f} s")
        time.sleep(0.1)
    time.sleep(_PAUSE_S)
    return Stretch(begin, end)


def _speed(seconds: float) -> float:
    return _SIZE / 1e6 / seconds


def _large_file(path: Path) -> Path:
    """A file of random bytes that is on the disk and, as far as there is room, in memory."""
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(_SIZE >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return path


MEASUREMENTS: Final = (
    Measurement(
        "hash",
        "the daemon and plain SHA-256 hash a large artifact in turn while 50 runs end a second",
        (_SPEED, _LATENCY),
        _hashing,
    ),
)
