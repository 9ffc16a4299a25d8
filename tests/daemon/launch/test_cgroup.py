"""Ending what is left in the cgroup of a run: only in one that a launcher made, and never where the daemon is itself."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runward.daemon.launch import cgroup
from runward.daemon.launch.cgroup import ContainmentUnavailable, cgroup_of, end_run_in
from runward.daemon.processes.ending_runs import EndOrdered
from runward.daemon.world import processes
from runward.handlers.model.sessions import RunProcesses


@pytest.fixture
def below_ours() -> Iterator[Path]:
    """A cgroup that may be written to, in which tests make others."""
    try:
        made = Path(cgroup_of(os.getpid())) / f"test-{os.urandom(4).hex()}"
        made.mkdir()
    except (ContainmentUnavailable, OSError) as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield made
    for directory, _, _ in os.walk(made, topdown=False):
        os.rmdir(directory)


def sleeping_in(directory: Path) -> subprocess.Popen[bytes]:
    directory.mkdir(exist_ok=True)
    process = subprocess.Popen(["sleep", "1000"])
    (directory / "cgroup.procs").write_text(str(process.pid))
    return process


def test_all_that_is_in_the_cgroup_of_a_run_is_killed(below_ours: Path) -> None:
    run = below_ours / "runward-a-1f"
    processes = [sleeping_in(run), sleeping_in(run), sleeping_in(run / "made by the command")]
    assert end_run_in(str(run)) == 3
    assert [each.wait() for each in processes] == [-9, -9, -9]
    assert not run.exists()


@pytest.mark.parametrize("name", ["else", "runward-a/../else", "runward-a/else"])
def test_what_no_launcher_made_is_left_alone(below_ours: Path, name: str) -> None:
    (below_ours / "runward-a").mkdir()
    process = sleeping_in(below_ours / name)
    try:
        assert end_run_in(f"{below_ours}/{name}") == 0
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_cgroup_that_contains_the_daemon_is_left_alone(
    below_ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = below_ours / "runward-a-1f"
    process = sleeping_in(run)
    monkeypatch.setattr(cgroup, "cgroup_of", lambda pid: f"{run}/daemon")
    try:
        assert end_run_in(str(run)) == 0
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_ending_a_run_begins_with_its_cgroup_also_if_its_recorded_processes_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[str] = []

    def kill(path: str) -> int:
        killed.append(path)
        return 2

    monkeypatch.setattr(processes, "end_run_in", kill)
    answer = processes.RealProcesses().end_tree(RunProcesses(cgroup="/sys/fs/cgroup/runward-a-1f"), "/runs/a")
    assert killed == ["/sys/fs/cgroup/runward-a-1f"]
    assert answer == EndOrdered("2 processes in its cgroup were killed")


def test_a_directory_elsewhere_is_not_a_cgroup(tmp_path: Path) -> None:
    (tmp_path / "runward-a").mkdir()
    assert end_run_in(f"{tmp_path}/runward-a") == 0
    assert end_run_in(f"{tmp_path}/runward-gone") == 0
