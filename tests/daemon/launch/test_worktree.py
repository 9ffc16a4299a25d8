"""A step's worktree: what is checked out is older than anything that its command leaves there."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.daemon.launching import SOURCES, is_alive, living_with
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.launch.worktree import GitFailed, _run, make
from runward.daemon.processes.cancelling import CANCEL
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
timeout = float(sys.argv[2]) if len(sys.argv) > 2 else None
order = Order(
    ("true",), sys.argv[1], "run", worktree=("/", "HEAD"), cwd=sys.argv[1] + "/worktree", timeout=timeout
)
print(launch(order, os.environ).ending.cause)
"""
_HANGING = """#!/bin/sh
trap 'echo cleaned > "$CLEANED"; exit 1' TERM
touch "$BEGUN"
setsid sleep 1000 > /dev/null 2>&1 &
sleep 1000 & wait
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


@pytest.mark.parametrize(
    ("number", "timeout", "ending"),
    [
        (
            signal.SIGTERM,
            100.0,
            ("cancelled", 15, "the command never began: its worktree was still being made"),
        ),
        (
            CANCEL,
            100.0,
            (
                "cancelled",
                None,
                "cancelled by ann: enough; the command never began: its worktree was still being made",
            ),
        ),
        (None, 1.0, ("timed_out", None, "the command never began: its worktree was still being made")),
    ],
)
def test_a_run_ends_while_git_makes_its_worktree(
    tmp_path: Path, number: int | None, timeout: float, ending: tuple[str, int | None, str]
) -> None:
    programs, runs = tmp_path / "bin", tmp_path / "runs"
    programs.mkdir()
    (programs / "git").write_text(_HANGING)
    (programs / "git").chmod(0o755)
    mark = f"MARK_OF_TEST={tmp_path}"
    with subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, str(runs), str(timeout)],
        env={
            "PATH": f"{programs}:{os.defpath}",
            "PYTHONPATH": str(SOURCES),
            "MARK_OF_TEST": str(tmp_path),
            "BEGUN": str(tmp_path / "begun"),
            "CLEANED": str(tmp_path / "cleaned"),
        },
    ) as launcher:
        try:
            wait_for((tmp_path / "begun").exists, "git")
            (runs / "run/cancel.json").write_text('{"said_by": "ann", "reason": "enough"}')
            asked_at = time.monotonic()
            if number is not None:
                launcher.send_signal(number)
            launcher.wait(PATIENCE_S)
            took = time.monotonic() - asked_at
            left = living_with(mark.encode())
        finally:
            launcher.kill()
            for pid in living_with(mark.encode()):
                os.kill(pid, signal.SIGKILL)
    said = json.loads((runs / "run/exit.json").read_text())
    assert (said["cause"], said["signal"], said["error"]) == ending
    assert not left
    assert (tmp_path / "cleaned").exists(), "git could remove what it had half made"
    assert took < PATIENCE_S / 2


def test_what_git_took_counts_towards_the_timeout(tmp_path: Path) -> None:
    programs, runs = tmp_path / "bin", tmp_path / "runs"
    programs.mkdir()
    (programs / "git").write_text(f"#!/bin/sh\nsleep 2\nmkdir {runs}/worktree\n")
    (programs / "git").chmod(0o755)
    (programs / "true").write_text("#!/bin/sh\nexec sleep 1000\n")
    (programs / "true").chmod(0o755)
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", _LAUNCH, str(runs), "3"],
        env={"PATH": f"{programs}:{os.defpath}", "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("timed_out\n", "")
    said = json.loads((runs / "run/exit.json").read_text())
    assert said["error"] is None
    assert said["duration_s"] < 3.0, "its timeout is not counted from the release"
    assert time.monotonic() - began >= 3.0
