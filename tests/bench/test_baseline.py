"""The baseline is a yardstick only as long as it really reads, judges, commits and appends."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

HERE = Path(__file__).parent
RUNS = 60
LACKS_REQUIRED = "run-0000049"


class Report(BaseModel):
    """What the baseline says of itself."""

    durable_at: dict[str, int]
    commits: int


def fixture(deed: str, root: Path, *further: str) -> dict[str, int]:
    command = [
        sys.executable,
        str(HERE / "fixtures.py"),
        deed,
        "--root",
        str(root),
        "--count",
        str(RUNS),
        *further,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    renamed_at: dict[str, int] = json.loads(done.stdout)["renamed_at"]
    return renamed_at


def measured(tmp_path: Path, *arguments: str, rate: float = 0.0) -> tuple[dict[str, int], Report]:
    """When each run was renamed, and the baseline's report, with store and journal in `tmp_path/state`."""
    root, state = tmp_path / "runs", tmp_path / "state"
    state.mkdir()
    command = [
        sys.executable,
        str(HERE / "baseline.py"),
        "--root",
        str(root),
        "--state",
        str(state),
        "--runs",
        str(RUNS),
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        renamed_at = fixture("finish", root, "--rate", str(rate))
        return renamed_at, Report.model_validate_json(process.stdout.read())


def verdicts(tmp_path: Path) -> dict[str, tuple[str, str]]:
    with sqlite3.connect(tmp_path / "state" / "baseline.db") as database:
        rows = database.execute("select run, status, reason from runs").fetchall()
    database.close()
    return {run: (status, reason) for run, status, reason in rows}


WAYS = pytest.mark.parametrize(
    "arguments",
    [
        ["--watcher", "inotify", "--stages", "1", "--batch", "1"],
        ["--watcher", "inotify", "--stages", "2", "--batch", "7"],
        ["--watcher", "watchfiles", "--stages", "2"],
    ],
    ids=["inotify-one-a-commit", "inotify-two-stages", "watchfiles-two-stages"],
)


@WAYS
def test_every_finished_run_is_judged_committed_and_appended_once(
    tmp_path: Path, arguments: list[str]
) -> None:
    fixture("make", tmp_path / "runs")
    renamed_at, report = measured(tmp_path, *arguments)

    assert verdicts(tmp_path).keys() == renamed_at.keys() == report.durable_at.keys()
    assert len(renamed_at) == RUNS
    lines = [json.loads(line) for line in (tmp_path / "state" / "events.jsonl").read_text().splitlines()]
    assert sorted(line["run"] for line in lines) == sorted(renamed_at)
    with sqlite3.connect(tmp_path / "state" / "baseline.db") as database:
        assert database.execute("pragma journal_mode").fetchone() == ("wal",)
        assert database.execute("select count(*) from events").fetchone() == (RUNS,)
        assert database.execute("select state, count(*) from jobs group by state").fetchall() == [
            ("done", RUNS)
        ]
    database.close()


@WAYS
def test_a_run_without_a_required_artifact_fails_and_only_that_one(
    tmp_path: Path, arguments: list[str]
) -> None:
    fixture("make", tmp_path / "runs")
    (tmp_path / "runs" / "run-0000003" / "artifacts" / "report.md").unlink()
    (tmp_path / "runs" / "run-0000004" / "artifacts" / "notes.md").unlink()  # optional
    (tmp_path / "runs" / "run-0000005" / "artifacts" / "report.md").write_text("")
    measured(tmp_path, *arguments)

    failed = {run: reason for run, (status, reason) in verdicts(tmp_path).items() if status == "failed"}
    missing = "run.failed.missing_artifact"
    assert failed == {LACKS_REQUIRED: missing, "run-0000003": missing, "run-0000005": missing}


def test_one_a_commit_commits_each_run_by_itself(tmp_path: Path) -> None:
    fixture("make", tmp_path / "runs")
    _, report = measured(tmp_path, "--watcher", "inotify", "--stages", "1", "--batch", "1")

    assert report.commits == RUNS
    assert len(set(report.durable_at.values())) == RUNS


def test_two_stages_commit_twice_a_batch(tmp_path: Path) -> None:
    fixture("make", tmp_path / "runs")
    _, report = measured(tmp_path, "--watcher", "inotify", "--stages", "2", "--batch", "1")

    assert report.commits == 2 * RUNS


def test_a_run_is_durable_after_its_rename(tmp_path: Path) -> None:
    fixture("make", tmp_path / "runs")
    renamed_at, report = measured(tmp_path, "--watcher", "watchfiles", rate=300.0)

    waits = [report.durable_at[run] - at for run, at in renamed_at.items()]
    assert min(waits) > 0


def test_a_storm_and_a_show_leave_finished_runs_as_a_burst_does(tmp_path: Path) -> None:
    for name in ("made", "stormed", "shown"):
        (tmp_path / name).mkdir()
    fixture("make", tmp_path / "made")
    fixture("finish", tmp_path / "made")
    fixture("storm", tmp_path / "stormed")
    fixture("make", tmp_path / "hidden")
    fixture("finish", tmp_path / "hidden")
    fixture("show", tmp_path / "shown", "--from", str(tmp_path / "hidden"))

    def files(root: str) -> set[Path]:
        return {path.relative_to(tmp_path / root) for path in (tmp_path / root).rglob("*")}

    assert files("made") == files("stormed") == files("shown")
    assert files("hidden") == set()
    assert Path(LACKS_REQUIRED, "artifacts", "report.md") in files("made")
    assert Path(LACKS_REQUIRED, "artifacts", "findings.md") not in files("made")
