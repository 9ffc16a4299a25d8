"""A daemon in the foreground of a terminal ends in order when that is closed; any other SIGHUP reads its settings again."""

import os
import pty
import signal
import sys
from pathlib import Path

import pytest
from tests.proof.place import Place
from tests.waiting import wait_for

PROGRAM = "from runward.daemon.cli import main; main()"


def _shell(place: Place, script: str) -> int:
    """A terminal in which a shell runs the script, and in it `$runward`; returns the near end, for anyone who looks at it."""
    environment = {
        "HOME": str(place.directory),
        "PATH": os.environ["PATH"],
        "RUNWARD_CONFIG": str(place.settings),
    }
    script = script.replace("$runward", f"'{sys.executable}' -c '{PROGRAM}'")
    pid, near = pty.fork()
    if pid == 0:
        os.execve("/bin/sh", ["sh", "-c", script], environment)
    return near


def _read_until_ready(near: int) -> None:
    said = b""
    while b" ready " not in said:
        said += os.read(near, 4096)


def _daemon(place: Place) -> int:
    """The pid of the daemon that runs here."""
    return int(str(place.log("started")[-1]["pid"]))


def _is_there(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def terminal(place: Place) -> tuple[int, str]:
    """Both ends of a terminal that is nobody's yet."""
    near, far = pty.openpty()
    name = os.ttyname(far)
    os.set_blocking(near, False)
    return near, name


def test_a_daemon_under_a_shell_whose_terminal_is_closed_ends_in_order(place: Place) -> None:
    near = _shell(place, "$runward daemon; true")
    _read_until_ready(near)
    place.finished_run("before")
    place.wait_ended(1)
    pid = _daemon(place)
    os.close(near)
    wait_for(lambda: place.log("stopped"), "a stop in order")
    wait_for(lambda: not _is_there(pid), "the end of the daemon")
    assert place.log("stopping")[0]["signal"] == "SIGHUP"
    assert place.once() == 0
    assert place.log("started")[-1]["after_clean_stop"] is True


def test_under_nohup_it_outlives_its_terminal_and_reads_its_settings_at_a_sighup(place: Place) -> None:
    near = _shell(place, "trap '' HUP; $runward daemon; true")  # what nohup(1) does
    _read_until_ready(near)
    pid = _daemon(place)
    os.close(near)
    os.kill(pid, signal.SIGHUP)
    wait_for(lambda: place.log("reloaded"), "a reload")
    place.finished_run("after")
    place.wait_ended(1)
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not _is_there(pid), "the end of the daemon")
    assert place.log("stopped")


def test_a_sighup_by_hand_reads_the_settings_again_where_there_is_a_terminal(
    place: Place, terminal: tuple[int, str]
) -> None:
    near, name = terminal
    daemon = place.daemon(terminal=name)
    place.wait_ready(daemon)
    daemon.send(signal.SIGHUP)
    wait_for(lambda: place.log("reloaded"), "a reload")
    os.close(near)
    assert daemon.wait() == 0, daemon.said()
    assert place.log("stopped")
