"""A soak: runs come at a steady rate, end and are deleted, and what the daemon holds of the machine is sampled."""

import shutil
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from tests.proof.place import Place
from tests.proof.processes import Process

RATE: Final = 20
"""Runs that begin in a second, as many as end."""

SAMPLE_EVERY: Final = 5.0
DELETED_AFTER: Final = 10.0
"""Seconds from a run's end after which its directory is deleted, once it has its verdict."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a daemon holds at a moment; `stray` are watches of directories that are gone."""

    memory_mb: float
    descriptors: float
    threads: float
    wal_mb: float
    watches: float
    stray: float


class Soak:
    """Runs in a place, each begun, ended a second later, and deleted when it is judged."""

    def __init__(self, place: Place, daemon: Process) -> None:
        self.begun = 0
        self.deleted = 0
        self.samples: list[Sample] = []
        self._place = place
        self._daemon = daemon
        self._running: list[Path] = []
        self._ended: deque[tuple[float, list[Path]]] = deque()

    def go_on(self, seconds: float) -> None:
        """For so long, sampling in between. Where the machine is too slow for the rate, it is less."""
        end = time.monotonic() + seconds
        sampled_at = 0.0
        while (now := time.monotonic()) < end:
            self._second()
            if now - sampled_at >= SAMPLE_EVERY:
                sampled_at = now
                self.samples.append(self._sample())
            time.sleep(max(0.0, now + 1.0 - time.monotonic()))

    def finish(self) -> None:
        """Have what is still running end."""
        self._end_running()

    def _second(self) -> None:
        self._end_running()
        for number in range(self.begun, self.begun + RATE):
            self._running.append(self._place.start_run(f"run-{number}", [("report.md", True)]))
        self.begun += RATE
        while self._ended and time.monotonic() - self._ended[0][0] >= DELETED_AFTER:
            if not self._judged(self._ended[0][1]):
                break
            for run in self._ended.popleft()[1]:
                shutil.rmtree(run)
                self.deleted += 1

    def _end_running(self) -> None:
        for run in self._running:
            (run / "artifacts" / "report.md").write_text("found nothing\n")
            self._place.finish_run(run)
        self._ended.append((time.monotonic(), self._running))
        self._running = []

    def _judged(self, runs: Sequence[Path]) -> bool:
        """Whether all of these have their verdict, and their journals."""
        last = [f"native:{run.parent.name}/{run.name}" for run in runs]
        marks = ",".join("?" * len(last))
        rows = self._place.rows(
            f"select (select count(*) from sessions where key in ({marks}) and status = 'running')"
            f" + (select count(*) from outbox o join events e on e.seq = o.event where e.lane in ({marks}))",
            *last,
            *last,
        )
        return rows == [(0,)]

    def _sample(self) -> Sample:
        process = Path(f"/proc/{self._daemon.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        wal = self._place.state / "runward.db-wal"
        # Counted before the directories: nobody but this thread makes and deletes those that may be watched.
        watches = sum(_watches(process))
        return Sample(
            float(status["VmRSS"].split()[0]) / 1024,
            len(list((process / "fd").iterdir())),
            int(status["Threads"]),
            wal.stat().st_size / 1e6 if wal.exists() else 0.0,
            watches,
            max(0, watches - self._directories()),
        )

    def _directories(self) -> int:
        """How many may be watched: runs with their artifacts, the root and the inbox, which may be asked after twice."""
        return 2 * (self.begun - self.deleted) + 4


def _watches(process: Path) -> Iterator[int]:
    for each in (process / "fdinfo").iterdir():
        try:
            yield each.read_text().count("inotify wd:")
        except FileNotFoundError:
            continue  # closed since it was listed


def medians(samples: Sequence[Sample]) -> Sample:
    """Of each figure by itself."""
    return Sample(
        *(statistics.median(getattr(each, field.name) for each in samples) for field in fields(Sample))
    )


def thirds(samples: Sequence[Sample]) -> tuple[Sample, Sample, Sample]:
    """The medians of the first, the second and the last third of a soak."""
    size = len(samples) // 3
    return medians(samples[:size]), medians(samples[size : 2 * size]), medians(samples[2 * size :])


def table(samples: Sequence[Sample]) -> str:
    """The thirds, for people."""
    parts = thirds(samples)
    lines = [f"{'':12} {'first third':>12} {'second':>12} {'last':>12} {'most':>12}"]
    for field in fields(Sample):
        told = [getattr(each, field.name) for each in parts]
        told.append(max(getattr(each, field.name) for each in samples))
        lines.append(f"{field.name:12} " + " ".join(f"{value:12.1f}" for value in told))
    return "\n".join(lines)
