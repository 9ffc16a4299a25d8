"""Soaks: runs come at a steady rate, end and are deleted, and what the daemon holds of the machine is sampled.

In one, runs are written by hand; in the other, the daemon is asked to start them.
"""

import os
import shutil
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from tests.proof.place import Place, write
from tests.proof.processes import Process
from tests.waiting import wait_for

from runward.daemon.launch.cgroup import PREFIX, ContainmentUnavailable, cgroup_of
from runward.daemon.world.starting import MOST_FREE

RATE: Final = 20
"""Runs that begin in a second, as many as end."""

AT_ONCE: Final = 50
"""Launched runs that are asked for and not over yet, at most: so a machine that is too slow gets no longer queue."""

SAMPLE_EVERY: Final = 5.0
DELETED_AFTER: Final = 10.0
"""Seconds from a run's end after which its directory is deleted, once it has its verdict."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a daemon holds at a moment; `stray` are watches of directories that are gone.

    `processes` are those that it started, launchers and their commands among them. `cgroups` are those below its own.
    """

    memory_mb: float
    descriptors: float
    threads: float
    wal_mb: float
    watches: float
    stray: float
    processes: float
    cgroups: float


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
        # Two directories of each run, the root and the inbox, which may be asked after twice. Counted after the watches:
        # nobody but this thread makes and deletes those that may be watched.
        return sample(self._place, self._daemon, lambda: 2 * (self.begun - self.deleted) + 4)


class LaunchedSoak:
    """Runs that the daemon is asked to start, a few at a time, and that are deleted when they are judged."""

    def __init__(self, place: Place, daemon: Process) -> None:
        self.asked = 0
        self.deleted = 0
        self.samples: list[Sample] = []
        self._place = place
        self._daemon = daemon
        (place.directory / "playbooks").mkdir()
        write(place.directory / "playbooks" / "nothing.playbook.yaml", 'command: ["true"]\n')
        write(place.directory / "playbooks" / "lasting.playbook.yaml", 'command: ["sleep", "5"]\n')
        self._go = place.directory / "go"
        waits = f"until [ -e {self._go} ]; do sleep 0.1; done"
        write(place.directory / "playbooks" / "waiting.playbook.yaml", f'command: ["sh", "-c", "{waits}"]\n')

    def go_on(self, count: int, rate: float) -> None:
        """So many more runs, this many in a second if the machine keeps up; then wait until all are judged and deleted."""
        begin, first, sampled_at = time.monotonic(), self.asked, 0.0
        while self.asked < first + count:
            now = time.monotonic()
            due = min(first + count, first + int((now - begin) * rate) + 1, self._over() + AT_ONCE)
            while self.asked < due:
                self._ask("nothing")
            self._delete()
            if now - sampled_at >= SAMPLE_EVERY:
                sampled_at = now
                self.samples.append(self.sample())
            time.sleep(0.1)
        wait_for(lambda: self._delete() == self.asked, f"the verdicts of {self.asked} launched runs")

    def run_many_at_once(self) -> None:
        """So many runs at the same time that as many launchers as may wait for another run do so afterwards."""
        for _ in range(MOST_FREE + 1):
            self._ask("waiting")
        running = "select count(*) from sessions where status = 'running'"
        wait_for(lambda: self._place.rows(running) == [(MOST_FREE + 1,)], "runs at the same time")
        self._go.touch()
        wait_for(lambda: self._delete() == self.asked, "the verdicts of runs at the same time")
        self._go.unlink()

    def begin_one_that_lasts(self) -> None:
        """One run that is seen while it runs: the others are over between two samples."""
        self._ask("lasting")

    def _ask(self, playbook: str) -> None:
        said = {"at": float(self.asked), "playbook": playbook, "given": {}, "cwd": "/"}
        self._place.put_request({"type": "PlayRunRequested", "version": 1, "payload": said})
        self.asked += 1

    def sample(self) -> Sample:
        """What the daemon holds now."""
        return sample(self._place, self._daemon, lambda: 2 * (self.asked - self.deleted) + 4)

    def _over(self) -> int:
        ((over,),) = self._place.rows(
            "select coalesce(sum(sessions), 0) from session_counts where status != 'running'"
        )
        return int(str(over))

    def _delete(self) -> int:
        """Delete the runs that are judged, with journals and bundles in place; returns how many were so far."""
        there = {f"native:{self._place.runs.name}/{each.name}": each for each in self._place.runs.iterdir()}
        marks = ",".join("?" * len(there))
        over = self._place.rows(
            f"select s.key from sessions s join receipts r on r.session_key = s.key where s.key in ({marks})"
            " and coalesce(r.placed_at, r.place_problem) is not null"
            " and s.status != 'running' and not exists"
            " (select 1 from outbox o join events e on e.seq = o.event where e.lane = s.key)",
            *there,
        )
        for (key,) in over:
            shutil.rmtree(there[str(key)])
            self.deleted += 1
        return self.deleted


def sample(place: Place, daemon: Process, may_be_watched: Callable[[], int]) -> Sample:
    """What the daemon holds now. `may_be_watched` counts the directories that may have a watch."""
    process = Path(f"/proc/{daemon.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    wal = place.state / "runward.db-wal"
    watches = sum(_watches(process))
    return Sample(
        float(status["VmRSS"].split()[0]) / 1024,
        len(list((process / "fd").iterdir())),
        int(status["Threads"]),
        wal.stat().st_size / 1e6 if wal.exists() else 0.0,
        watches,
        max(0, watches - may_be_watched()),
        len(_processes(daemon.pid, place.directory)),
        _cgroups(place, daemon.pid),
    )


def _processes(daemon: int, place: Path) -> set[int]:
    """The daemon's children, ended ones that nobody waited for among them, and all that have its environment.

    Launchers leave their parents, so the environment tells them.
    """
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(
            FileNotFoundError, ProcessLookupError, PermissionError
        ):  # it ended, or is nothing of ours
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if (
                parent == daemon
                or b"\0HOME=%s\0" % os.fsencode(place) in b"\0" + (each / "environ").read_bytes()
            ):
                found.add(int(each.name))
    return found - {daemon}


def _cgroups(place: Place, daemon: int) -> int:
    """How many cgroups of this daemon's runs there are below its own; 0 without cgroup v2.

    Other daemons of the machine may have the same cgroup, for example those of other tests.
    """
    try:
        there = [each for each in os.listdir(cgroup_of(daemon)) if each.startswith(PREFIX)]
    except (ContainmentUnavailable, OSError):
        return 0
    ours = {str(run)[:_NAMED] for (run,) in place.rows("select session_id from sessions")} if there else set()
    return sum(each.removeprefix(PREFIX).rpartition("-")[0] in ours for each in there)


_NAMED: Final = 50
"""Characters of a run's name that the name of its cgroup has."""


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
