"""Runs in a transient scope of a real systemd user manager, which the test starts beside the machine's own init."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import Launcher, members, until
from tests.daemon.processes.user_systemd import UserSystemd, user_systemd

HERE = Path(__file__).parent


class Scoped:
    """Starts commands beside a user's systemd of their own."""

    def __init__(self, launcher: Launcher, systemd: UserSystemd) -> None:
        self.launcher = launcher
        self._systemd = systemd

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`runward run` with these arguments."""
        return subprocess.Popen(
            self._systemd.argv(*self.launcher.argv(*arguments)),
            env=self.launcher.environment,
            cwd=self.launcher.work,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the output."""
        process = self.start(*arguments)
        output, complaints = process.communicate()
        self._systemd.check(process.returncode, complaints.decode())
        return process.returncode, output.decode()


@pytest.fixture
def systemd(launcher: Launcher) -> Iterator[Scoped]:
    with user_systemd(launcher.work.parent / "home") as started:
        yield Scoped(launcher, started)


def test_the_scope_is_the_first_choice_where_the_users_bus_answers(systemd: Scoped) -> None:
    show = "grep 0:: /proc/self/cgroup; systemctl --user list-units --plain --no-legend 'runward-*'"
    code, output = systemd.run("--name", "scoped", "--", "sh", "-c", show)

    assert code == 0
    cgroup, unit = output.splitlines()
    assert unit.endswith("active running Runward: scoped")
    assert unit.split()[0] == os.path.basename(cgroup)
    assert systemd.launcher.read("scoped", "run.json")["containment"] == "scope"


def test_the_command_keeps_environment_and_process(systemd: Scoped) -> None:
    _, output = systemd.run("--name", "same", "--", "sh", "-c", "echo $$; env")

    pid, *environment = output.splitlines()
    assert int(pid) == systemd.launcher.pid("same")
    assert [line for line in environment if line.startswith(("INVOCATION_ID", "NOTIFY_SOCKET"))] == []


@pytest.mark.parametrize("how", ["stay", "exit"])
def test_nobody_of_an_evil_tree_is_left_in_a_scope(systemd: Scoped, how: str) -> None:
    arguments = ["--timeout", "1s", "--grace", "500ms", "--name", "evil", "--containment", "scope"]
    code, _ = systemd.run(*arguments, "--", sys.executable, str(HERE / "evil_tree.py"), how)

    assert code == (124 if how == "stay" else 0)
    assert members(str(systemd.launcher.directory("evil"))) == []


@pytest.mark.prove
def test_systemd_keeps_the_deadline_of_a_launcher_that_was_killed(systemd: Scoped) -> None:
    words = ["--name", "orphan", "--timeout", "1s", "--grace", "1s", "--containment", "scope"]
    process = systemd.start(*words, "--", "sh", "-c", "sleep 1000 & wait")
    until(lambda: len(members(str(systemd.launcher.directory("orphan")))) == 2, "the command")
    launcher = systemd.launcher.read("orphan", "run.json")["launcher"]
    assert isinstance(launcher, dict)
    # The script that holds systemd waits for its command: it is stopped meanwhile, or it would end both.
    process.send_signal(signal.SIGSTOP)
    os.kill(int(str(launcher["pid"])), signal.SIGKILL)

    until(lambda: not members(str(systemd.launcher.directory("orphan"))), "systemd's deadline")
    assert not (systemd.launcher.directory("orphan") / "exit.json").exists()
    process.send_signal(signal.SIGCONT)
    process.communicate()
