"""A command at its gate."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.launching import SOURCES
from tests.waiting import PATIENCE_S

from runward.daemon.launch.command import GatedCommand, fork_command


def gated(words: list[str], directory: Path) -> GatedCommand:
    return fork_command(words, {"PATH": os.defpath}, streams={}, signal_mask=set())


def test_a_command_that_is_released_runs(tmp_path: Path) -> None:
    command = gated(["touch", str(tmp_path / "ran")], tmp_path)

    command.release()
    assert os.waitpid(command.pid, 0)[1] == 0
    assert command.start_failure() is None
    assert (tmp_path / "ran").exists()


def test_a_command_whose_launcher_goes_away_at_the_gate_never_runs(tmp_path: Path) -> None:
    command = gated(["touch", str(tmp_path / "ran")], tmp_path)
    command.close()

    assert os.waitstatus_to_exitcode(os.waitpid(command.pid, 0)[1]) == 125
    assert not (tmp_path / "ran").exists()


def test_a_child_that_is_killed_at_the_gate_is_seen_by_its_status(tmp_path: Path) -> None:
    command = gated(["touch", str(tmp_path / "ran")], tmp_path)
    os.kill(command.pid, 9)

    command.release()
    assert os.waitstatus_to_exitcode(os.waitpid(command.pid, 0)[1]) == -9
    assert command.start_failure() is None
    assert not (tmp_path / "ran").exists()


def test_a_directory_of_path_that_may_not_be_searched_hides_no_answer(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    command = fork_command(["nowhere"], {"PATH": f"{closed}:/bin"}, streams={}, signal_mask=set())
    command.release()
    os.waitpid(command.pid, 0)
    failure = command.start_failure()
    closed.chmod(0o700)

    assert failure is not None
    assert (failure.exit_code, failure.message) == (127, "command not found")


def test_a_file_on_path_that_may_not_be_run_is_not_executable(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    command = fork_command(["program"], {"PATH": str(tmp_path)}, streams={}, signal_mask=set())
    command.release()
    os.waitpid(command.pid, 0)
    failure = command.start_failure()

    assert failure is not None
    assert (failure.exit_code, failure.message) == (126, "Permission denied")


_NAMESPACED = """
import os, sys, time
from runward.daemon.launch import command
from runward.daemon.launch.cgroup import ContainmentUnavailable
from runward.daemon.processes import proc
setattr(command, sys.argv[1], lambda *_: time.sleep(1000))
command._PATIENCE_S = 0.5
held = os.listdir("/proc/self/fd")
began = time.monotonic()
try:
    command.fork_namespaced_command(["true"], {"PATH": os.defpath}, streams={}, signal_mask=set())
except ContainmentUnavailable as error:
    print(error)
print(time.monotonic() - began < 5.0, proc.children(), os.listdir("/proc/self/fd") == held)
"""


@pytest.mark.parametrize("hanging", ["unshare", "mount_own_proc"])
def test_a_namespace_that_is_never_made_is_not_waited_for(hanging: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _NAMESPACED, hanging],
        env={"PATH": os.defpath, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if "Operation not permitted" in ended.stdout:
        pytest.skip("this machine makes no namespaces")
    assert ended.stderr == ""
    assert ended.stdout == (
        "there can be no PID namespace: it was not made within 0.5 s\nTrue frozenset() True\n"
    )
