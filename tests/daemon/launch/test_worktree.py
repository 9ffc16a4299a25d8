"""A step's worktree: what is checked out is older than anything that its command leaves there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.launching import SOURCES, is_alive, living_with

from runward.daemon.launch.worktree import GitFailed, _run, make
from runward.daemon.processes.kernel import file_time


def test_what_is_checked_out_is_older_than_the_launch(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "--quiet", str(repo)], check=True)
    (repo / "source").write_text("x")
    for command in (("add", "."), ("commit", "--quiet", "-m", "first")):
        subprocess.run(
            ["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@t", *command], check=True
        )
    ages = []
    for number in range(5):
        worktree = tmp_path / "state" / f"{number}"
        make(str(repo), "HEAD", str(worktree))
        ages.append(file_time() - os.stat(worktree / "source").st_mtime)
    assert min(ages) > 0, "a command that writes now leaves a younger file"


def test_the_time_of_files_divides_what_was_written_before_from_what_is_written_after(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for _ in range(100):
        with before.open("w") as file:
            file.write("x")
            file.flush()
            os.fstat(file.fileno())  # somebody has seen that time: the next change gets a finer one
            file.write("y")
        now = file_time()
        after.write_text("z")
        assert before.stat().st_mtime <= now <= after.stat().st_mtime


def test_what_holds_gits_pipes_after_its_time_is_not_waited_for(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    script = f"setsid sleep 1000 & echo $! > {said}; sleep 1000"
    with pytest.raises(GitFailed, match="did not end within"):
        _run(("sh", "-c", script), 2.0)
    left = int(said.read_text())
    assert is_alive(left), "it holds the pipes"
    os.kill(left, signal.SIGKILL)


_LAUNCH = """
import os, sys
from runward.daemon.launch.launch import Order, launch
order = Order(("true",), sys.argv[1], "run", worktree=("/", "HEAD"), cwd=sys.argv[1] + "/worktree")
print(launch(order, os.environ).ending.cause)
"""


def test_nothing_of_git_is_left_where_a_worktree_cannot_be_made(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\nsetsid sleep 1000 > /dev/null 2>&1 &\nexit 1\n")
    (programs / "git").chmod(0o755)
    mark = f"MARK_OF_TEST={tmp_path}"
    ended = subprocess.run(
        [sys.executable, "-c", _LAUNCH, str(tmp_path / "runs")],
        env={"PATH": f"{programs}:{os.defpath}", "PYTHONPATH": str(SOURCES), "MARK_OF_TEST": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("not_started\n", "")
    left = living_with(mark.encode())
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
