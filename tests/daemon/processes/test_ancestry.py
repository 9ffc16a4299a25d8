"""Where a process comes from: its ancestors, and the launched run that it was started in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.waiting import wait_for

from runward.daemon.processes import whereabouts
from runward.daemon.processes.proc import identity_of
from runward.daemon.processes.whereabouts import MOST_ANCESTORS, ancestors, launcher_of
from runward.handlers.model.processes import RecordedProcess


@contextmanager
def sleeping(*before: str, **environment: str) -> Iterator[RecordedProcess]:
    """A process that sleeps in this environment, behind the words `before`."""
    process = subprocess.Popen([*before, "/bin/sleep", "100"], env=environment)
    try:
        wait_for(lambda: b"sleep" in command_of(process.pid), "the program")
        identity = identity_of(process.pid)
        yield RecordedProcess(identity.pid, identity.start_ticks, identity.boot_id)
    finally:
        process.kill()
        process.wait()


def command_of(pid: int) -> bytes:
    with open(f"/proc/{pid}/comm", "rb") as file:
        return file.read()


def test_the_environment_names_the_launched_run() -> None:
    with sleeping(RUNWARD_SESSION_ID="night ä", OTHER="1") as process:
        assert launcher_of(process) == "night ä"


def test_without_a_launcher_there_is_none() -> None:
    with sleeping(NOT_RUNWARD_SESSION_ID="x", RUNWARD_SESSION_ID_="y") as process:
        assert launcher_of(process) is None
    with sleeping(RUNWARD_SESSION_ID="") as process:
        assert launcher_of(process) is None
    with sleeping(RUNWARD_SESSION_ID="x" * 2000) as process:
        assert launcher_of(process) is None


def test_a_process_that_cleared_its_environment_tells_nothing() -> None:
    with sleeping("/usr/bin/env", "-i", RUNWARD_SESSION_ID="night") as process:
        assert launcher_of(process) is None


def test_of_a_process_that_is_gone_or_was_another_one_nothing_is_known() -> None:
    with sleeping(RUNWARD_SESSION_ID="night") as process:
        assert launcher_of(process._replace(start_ticks=process.start_ticks + 1)) is None
        assert launcher_of(process._replace(boot_id="another")) is None
    assert launcher_of(process) is None
    assert ancestors(process.pid) == ()


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every environment")
def test_another_users_environment_is_unknown() -> None:
    first = identity_of(1)
    assert launcher_of(RecordedProcess(1, first.start_ticks, first.boot_id)) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_for_another_user_our_environment_is_unknown() -> None:
    with sleeping(RUNWARD_SESSION_ID="night") as process:
        program = (
            "import os, sys; from runward.daemon.processes.whereabouts import launcher_of;"
            "from runward.handlers.model.processes import RecordedProcess;"
            f"os.setgroups([]); os.setgid(65534); os.setuid(65534); print(launcher_of({process!r}))"
        )
        environment = {"PYTHONPATH": ":".join(sys.path)}
        ran = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
    assert ran.stdout == "None\n"


def test_ancestors_go_up_from_the_parent() -> None:
    with sleeping() as process:
        found = ancestors(process.pid)
    us = identity_of(os.getpid())
    assert found[0] == RecordedProcess(us.pid, us.start_ticks, us.boot_id)
    assert found[1].pid == os.getppid()
    assert len({each.pid for each in found}) == len(found) <= MOST_ANCESTORS


def test_a_long_line_of_ancestors_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whereabouts, "MOST_ANCESTORS", 1)
    with sleeping() as process:
        assert [each.pid for each in ancestors(process.pid)] == [os.getpid()]
