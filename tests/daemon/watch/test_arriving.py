"""A finished run is copied into a root, its `exit.json` before its artifacts."""

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.daemon.rundir.run_directories import change_of_run
from runward.handlers.model.sessions import LastChange


def copied(base: Path, *required: str) -> Path:
    """What is there of a run once its own files have arrived."""
    directory = base / "runs" / "copied"
    directory.mkdir(parents=True)
    entries = [
        {"id": each, "path": f"{each}.md", "required": True, "description": "", "source": "playbook"}
        for each in required
    ]
    run = {"schema": "runward-run-v1", "contract": {"expected": entries}}
    (directory / "run.json").write_text(json.dumps(run))
    (directory / "exit.json").write_text(json.dumps({"exit_code": 0}))
    return directory


def arrives(directory: Path, name: str, content: str = "all is well\n") -> None:
    (directory / "artifacts").mkdir(exist_ok=True)
    (directory / "artifacts" / f"{name}.md").write_text(content)


async def pass_by(running: Daemon, seconds: float) -> None:
    """So much time passes after the last change of a file: the kernel's clock doesn't stand still."""
    changes = [each.stat().st_ctime for each in running.root.rglob("*")]
    behind = max(0.0, max(changes) - running.clock.wall)
    running.clock.move(behind + seconds)
    running.supervisor.assembly.queue.may_be_due = True
    await running.settle()


async def verdict(running: Daemon) -> tuple[int, str]:
    ((attempt, status),) = await running.rows("select attempt, status from sessions")
    return int(str(attempt)), str(status)


def clock_now() -> StillClock:
    """A clock that agrees with the times that the kernel gives to files."""
    return StillClock(wall=time.time())


async def test_a_run_that_lacks_a_file_is_judged_when_nothing_has_arrived_for_two_seconds(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, clock_now(), ToldProcesses()) as running:
        directory = copied(tmp_path, "report")
        await pass_by(running, 0.5)
        assert await verdict(running) == (1, "running")
        arrives(directory, "report")
        await pass_by(running, 2.5)
        assert await verdict(running) == (1, "completed")
        assert len(running.supervisor.assembly.verdicts.lag_of_awaited) == 0


async def test_a_file_that_arrives_within_a_minute_corrects_the_verdict(tmp_path: Path) -> None:
    async with daemon(tmp_path, clock_now(), ToldProcesses()) as running:
        directory = copied(tmp_path, "report")
        await pass_by(running, 3.0)
        assert await verdict(running) == (1, "failed")
        arrives(directory, "report")
        await pass_by(running, 59.0)
        assert await verdict(running) == (2, "completed")


async def test_an_end_that_was_refused_meanwhile_hides_no_verdict(tmp_path: Path) -> None:
    async with daemon(tmp_path, clock_now(), ToldProcesses()) as running:
        directory = copied(tmp_path, "report")
        await pass_by(running, 3.0)
        with closing(sqlite3.connect(running.state / "runward.db", isolation_level=None)) as connection:
            connection.execute(
                "insert into decisions (event, handler, subject, at, verdict, summary, known)"
                " select event, handler, subject, at, 'refused', 'it is over', null from decisions"
                " where handler = 'sessions/ended'"
            )
        arrives(directory, "report")
        await pass_by(running, 20.0)
        assert await verdict(running) == (2, "completed")


async def test_each_further_file_has_its_minute(tmp_path: Path) -> None:
    async with daemon(tmp_path, clock_now(), ToldProcesses()) as running:
        directory = copied(tmp_path, "report", "review")
        await pass_by(running, 3.0)
        arrives(directory, "report")
        await pass_by(running, 50.0)
        assert await verdict(running) == (2, "failed")
        arrives(directory, "review")
        await pass_by(running, 50.0)
        assert await verdict(running) == (3, "completed")


async def test_a_file_that_arrives_later_corrects_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path, clock_now(), ToldProcesses()) as running:
        directory = copied(tmp_path, "report")
        await pass_by(running, 3.0)
        await pass_by(running, 61.0)
        arrives(directory, "report")
        await pass_by(running, 1.0)
        assert await verdict(running) == (1, "failed")


async def test_a_file_that_was_there_corrects_nothing_however_it_is_changed(tmp_path: Path) -> None:
    async with daemon(tmp_path, clock_now(), ToldProcesses()) as running:
        directory = copied(tmp_path, "report", "review")
        arrives(directory, "report", "")
        await pass_by(running, 3.0)
        arrives(directory, "report")
        os.utime(directory / "run.json")
        os.utime(directory / "exit.json")
        await pass_by(running, 30.0)
        assert await verdict(running) == (1, "failed")


async def test_an_outcome_that_arrives_corrects_the_verdict(tmp_path: Path) -> None:
    async with daemon(tmp_path, clock_now(), ToldProcesses()) as running:
        directory = copied(tmp_path)
        (directory / "artifacts").mkdir()
        entry = {"id": "verdict", "kind": "outcome", "outcome_kind": "review_verdict", "required": True}
        run = {"schema": "runward-run-v1", "contract": {"expected": [entry]}}
        (directory / "run.json").write_text(json.dumps(run))
        await pass_by(running, 3.0)
        assert await verdict(running) == (1, "failed")
        outcome = {"outcome_kind": "review_verdict", "verdict": "APPROVE", "summary": "fine"}
        (directory / "outcome.json").write_text(json.dumps(outcome))
        await pass_by(running, 10.0)
        assert await verdict(running) == (2, "completed")


async def test_a_daemon_that_starts_meanwhile_knows_what_may_still_arrive(tmp_path: Path) -> None:
    clock = clock_now()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        directory = copied(tmp_path, "report")
        await pass_by(running, 3.0)
        await running.stop()
    arrives(directory, "report")
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await pass_by(running, 1.0)
        assert await verdict(running) == (2, "completed")


@pytest.mark.parametrize(("seconds_ago", "expected"), [(0.0, (2, "completed")), (100.0, (1, "failed"))])
async def test_a_file_that_arrived_while_no_daemon_ran_corrects_the_verdict_if_it_came_in_its_minute(
    tmp_path: Path, seconds_ago: float, expected: tuple[int, str]
) -> None:
    directory = copied(tmp_path, "report")
    clock = StillClock(wall=time.time() - seconds_ago + 3.0)
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        await running.settle()
        assert await verdict(running) == (1, "failed")
        await running.stop()
    arrives(directory, "report")
    clock.move(3600.0)
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        running.supervisor.assembly.queue.may_be_due = True
        await running.settle()
        assert await verdict(running) == expected


@pytest.mark.parametrize("name", ["events.jsonl", "results.jsonl", "RECEIPT.json", ".REPLAY.jsonl.x.tmp"])
def test_what_runward_writes_is_not_a_change_of_the_run(tmp_path: Path, name: str) -> None:
    directory = copied(tmp_path, "report")
    before = change_of_run(str(directory))
    (directory / name).write_text("{}\n")
    assert isinstance(before, LastChange)
    assert change_of_run(str(directory)) == before


def test_a_change_is_seen_however_deep_it_is(tmp_path: Path) -> None:
    directory = copied(tmp_path, "report")
    deep = directory / "artifacts" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "c").write_text("1")
    found = change_of_run(str(directory))
    assert isinstance(found, LastChange)
    assert found.newest == (deep / "c").stat().st_ctime_ns / 1e9
