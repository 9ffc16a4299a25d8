"""The baseline and, where it is at hand, an independent reference of the same work, each measured as a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from tests.bench.fixtures import right_verdict, unfinish
from tests.bench.scratch import Scratch

HERE = Path(__file__).parent
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Kind:
    """How a baseline works: its watcher, how many commits a batch takes, and how much a batch may hold."""

    watcher: str
    stages: int
    batch: int

    def arguments(self) -> list[str]:
        further = ["--step", "5", "--debounce", "20"] if self.watcher == "watchfiles" else []
        return ["--watcher", self.watcher, "--stages", str(self.stages), "--batch", str(self.batch), *further]


TWO_STAGES = Kind("watchfiles", 2, 256)
"""The yardstick of the goals: watchfiles 5/20, the job durable before its work."""
ONE_A_COMMIT = Kind("inotify", 1, 1)
"""One commit and one fsync a run."""


class FinishReport(BaseModel):
    """What fixtures.py prints."""

    renamed_at: dict[str, int]


class BaselineReport(BaseModel):
    """What baseline.py prints."""

    status: dict[str, str]
    durable_at: dict[str, int]
    commits: int
    cpu_s: float
    rss_mb: float


class ReferenceReport(BaseModel):
    """What the reference prints: a rate of a burst, or milliseconds at a rate."""

    done: int
    runs_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


class YardstickFailed(Exception):
    """A baseline did not do its work, so nothing can be held against it."""


def fixture(
    deed: str, root: Path, count: int, *, first: int = 0, rate: float = 0.0, hidden: Path | None = None
) -> dict[str, int]:
    """Let a child process do this to the runs; when each was renamed (nanoseconds)."""
    command = [sys.executable, str(HERE / "fixtures.py"), deed, "--root", str(root), "--first", str(first)]
    command += ["--count", str(count), "--rate", str(rate), "--from", str(hidden or "")]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=_TIMEOUT_S)
    return FinishReport.model_validate_json(done.stdout).renamed_at


def baseline_latencies(scratch: Scratch, kind: Kind, count: int, rate: float) -> list[float]:
    """Milliseconds from each rename to its durable line, over runs that are made and unfinished; they are again afterwards."""
    renamed_at, report = _baseline(scratch, kind, count, rate)
    return [(report.durable_at[run] - at) / 1e6 for run, at in renamed_at.items()]


def baseline_burst(scratch: Scratch, kind: Kind, count: int) -> float:
    """Runs a second, from the first rename to the last durable line."""
    renamed_at, report = _baseline(scratch, kind, count, 0.0)
    return count / ((max(report.durable_at.values()) - min(renamed_at.values())) / 1e9)


def _baseline(scratch: Scratch, kind: Kind, count: int, rate: float) -> tuple[dict[str, int], BaselineReport]:
    command = [sys.executable, str(HERE / "baseline.py"), "--root", str(scratch.runs)]
    command += ["--state", str(scratch.fresh("baseline")), "--runs", str(count), *kind.arguments()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise YardstickFailed("the baseline did not start")
        renamed_at = fixture("finish", scratch.runs, count, rate=rate)
        report = BaselineReport.model_validate_json(process.stdout.read())
    unfinish(str(scratch.runs), range(count))
    wrong = [run for run in renamed_at if report.status.get(run) != right_verdict(run)[0]]
    if wrong:
        raise YardstickFailed(
            f"the baseline lost or misjudged {len(wrong)} of {count} runs, such as {wrong[0]}"
        )
    return renamed_at, report


def reference() -> Path | None:
    """Where the independent reference lies, if anywhere."""
    directory = os.environ.get("RUNWARD_TEST_MATERIAL")
    script = Path(directory) / "bench" / "raw_pipeline.py" if directory else None
    return script if script is not None and script.is_file() else None


def reference_burst(script: Path, scratch: Scratch, kind: Kind, count: int) -> float:
    """Runs a second of the reference, on run directories that it makes for itself."""
    rate = _reference(script, scratch, kind, count, 0.0).runs_per_s
    assert rate is not None
    return rate


def reference_latency(script: Path, scratch: Scratch, kind: Kind, count: int, rate: float) -> float:
    """Median milliseconds of the reference."""
    median = _reference(script, scratch, kind, count, rate).p50_ms
    assert median is not None
    return median


def _reference(script: Path, scratch: Scratch, kind: Kind, count: int, rate: float) -> ReferenceReport:
    root = scratch.directory / "reference"  # it clears and removes the directory itself
    command = [
        sys.executable,
        str(script),
        "bench",
        "--root",
        str(root),
        "--n",
        str(count),
        "--rate",
        str(rate),
    ]
    done = subprocess.run(
        [*command, *kind.arguments()], stdout=subprocess.PIPE, check=True, timeout=_TIMEOUT_S
    )
    report = ReferenceReport.model_validate(json.loads(done.stdout))
    if report.done != count:
        raise YardstickFailed(f"the reference lost {count - report.done} of {count} runs")
    return report
