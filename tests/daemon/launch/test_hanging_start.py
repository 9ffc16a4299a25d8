"""A command whose start never returns: the launcher serves its deadline and its signals all the same.

A lease on the program makes execve(2) wait in the kernel, as a program on a dead disk does.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import SOURCES, Launcher, is_alive
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.launch.command import fork_command
from runward.daemon.processes.proc import read_stat

_HOLDER = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks for the lease back
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[str]:
    """A program that nobody can execute for the next 45 seconds, nor is told that they can't."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    if not holder.stdout.readline():
        pytest.skip("this file system gives no leases")
    yield str(program)
    holder.communicate()


def test_a_start_that_hangs_ends_at_the_timeout(launcher: Launcher, hanging: str) -> None:
    began = time.monotonic()
    result = launcher.run("--name", "hung", "--timeout", "300ms", "--grace", "300ms", "--", hanging)

    assert result.returncode == 124
    assert time.monotonic() - began < PATIENCE_S / 2
    ending, never = (
        launcher.ending("hung"),
        f"the command never began: entering its directory or executing {hanging}",
    )
    assert (ending["cause"], ending["error"]) == ("timed_out", f"{never} did not return")
    assert never in result.stderr.decode()
    assert not is_alive(launcher.pid("hung"))


@pytest.mark.parametrize("containment", ["auto", "subreaper", "none", "pidns"])
def test_a_start_that_hangs_ends_at_a_signal(launcher: Launcher, hanging: str, containment: str) -> None:
    process = launcher.start(
        "--name", "hung", "--grace", "300ms", "--containment", containment, "--", hanging
    )
    command = launcher.pid("hung")
    wait_for(lambda: read_stat(command).state == "S" and _is_executing(command), "the kernel waits")
    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    ending = launcher.ending("hung")
    assert (ending["cause"], ending["signal"]) == ("cancelled", signal.SIGTERM)
    assert "never began" in str(ending["error"])
    assert not is_alive(command)


def test_a_start_that_hangs_says_so_also_if_the_system_shuts_down(launcher: Launcher, hanging: str) -> None:
    programs = launcher.work / "bin"
    programs.mkdir()
    (programs / "systemctl").write_text("#!/bin/sh\necho stopping; exit 1\n")
    (programs / "systemctl").chmod(0o755)
    process = launcher.start(
        *("--name", "hung", "--grace", "300ms", "--", hanging), PATH=f"{programs}:{os.environ['PATH']}"
    )
    command = launcher.pid("hung")
    wait_for(lambda: read_stat(command).state == "S" and _is_executing(command), "the kernel waits")
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)

    ending = launcher.ending("hung")
    assert (ending["cause"], ending["signal"]) == ("cancelled", None)
    assert str(ending["error"]).startswith("shutdown; the command never began: ")


_SILENT = """
import os, sys
from runward.daemon.launch.launch import Order, launch
launch(Order((sys.argv[2],), sys.argv[1], "hung", stale_after=0.5, grace=0.3), os.environ)
"""


def test_a_start_that_hangs_says_so_also_if_it_is_ended_for_its_silence(tmp_path: Path, hanging: str) -> None:
    subprocess.run(
        [sys.executable, "-c", _SILENT, str(tmp_path), hanging],
        env={"PATH": os.defpath, "PYTHONPATH": str(SOURCES)},
        timeout=PATIENCE_S,
        check=True,
    )
    ending = json.loads((tmp_path / "hung/exit.json").read_text())
    assert ending["cause"] == "timed_out"
    assert ending["error"].startswith("stale; the command never began: ")


def _is_executing(pid: int) -> bool:
    return Path(f"/proc/{pid}/wchan").read_text() in ("__break_lease", "0")


def test_a_child_that_somebody_stopped_at_the_gate_is_abandoned() -> None:
    command = fork_command(["true"], {"PATH": os.defpath}, streams={}, signal_mask=set())
    os.kill(command.pid, signal.SIGSTOP)
    wait_for(lambda: read_stat(command.pid).state == "T", "it is stopped")
    command.abandon()

    assert not is_alive(command.pid)
