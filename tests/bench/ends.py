"""Verdicts of native runs that end at a steady rate, while large transcripts are read and while none is."""

import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.figure import names
from tests.bench.fixtures import lacks_nothing, make
from tests.bench.logs import make_finished, on_the_disk
from tests.bench.product import DaemonFailed, daemon, further_root
from tests.bench.record import wait_ms
from tests.bench.scratch import scratch
from tests.bench.yardstick import fixture

RATE: Final = 50.0
"""Ends a second."""
_TURNS: Final = 4
_TURN_S: Final = 4.0
"""Seconds of runs that end for each transcript: rests are measured too."""
_PAUSE_S: Final = 1.0


class Stretch(NamedTuple):
    """From one moment to another, in Unix seconds."""

    begin: float
    end: float

    def has(self, moment: float) -> bool:
        return self.begin <= moment <= self.end


class Waits(NamedTuple):
    """Milliseconds from ends to verdicts, beside something and without it."""

    beside: list[float]
    usual: list[float]


class Ends(threading.Thread):
    """Ends runs at the rate, in a process of its own."""

    def __init__(self, root: Path, count: int) -> None:
        super().__init__()
        self._root = root
        self._count = count
        self.renamed_at: dict[str, int] = {}
        self.start()

    def run(self) -> None:
        self.renamed_at = fixture("finish", self._root, self._count, rate=RATE)

    def waits(
        self, committed_at: dict[str, float], beside: list[Stretch], neither: list[Stretch] | None = None
    ) -> Waits:
        """By when each run ended: beside these stretches, or usual, or in `neither`."""
        found = Waits([], [])
        for run, at in self.renamed_at.items():
            if not lacks_nothing(run):
                continue
            waited = wait_ms(run, at, committed_at)
            if any(stretch.has(at / 1e9) for stretch in beside):
                found.beside.append(waited)
            elif not any(stretch.has(at / 1e9) for stretch in neither or []):
                found.usual.append(waited)
        if not found.beside or not found.usual:
            raise DaemonFailed(f"{len(found.beside)} runs ended beside it, {len(found.usual)} at other times")
        return found


def beside_readings(disk: Path, megabytes: int, problems: list[str]) -> Waits:
    """Transcripts of this size come into a root one after the other, each in one rename."""
    count = int(RATE * _TURN_S) * _TURNS
    with scratch(disk) as place:
        root, hidden = place.fresh("projects"), place.fresh("hidden")
        logs = [make_finished(hidden, turn, megabytes * 1_000_000) for turn in range(_TURNS)]
        (root / logs[0].place).parent.mkdir()
        make(str(place.runs), range(count))
        on_the_disk(root)
        with daemon(place, further_root(root, "live")) as running:
            running.wait_running(count)
            begin = time.time()
            ends = Ends(place.runs, count)
            readings = []
            for log in logs:
                time.sleep(_PAUSE_S)
                began = time.time()
                (hidden / log.place).rename(root / log.place)
                running.wait_read(log.place, log.size)
                readings.append(Stretch(began, time.time()))
            ends.join()
            running.wait_judged(count + len(logs))
            running.settle()
            committed_at = running.record.log(since=begin).committed_at
        problems += running.record.problems(names(count))
    return ends.waits(committed_at, readings)
