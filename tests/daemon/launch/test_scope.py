"""Runs in a transient scope of a real systemd user manager, which the test starts beside the machine's own init."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.daemon.launch import evil_rounds
from tests.daemon.launch.user_systemd import UserSystemd, user_systemd
from tests.daemon.launching import Launcher, members
from tests.waiting import wait_for


class Scoped:
    """Starts commands beside a user's systemd of their own."""

    def __init__(self, launcher: Launcher, systemd: UserSystemd) -> None:
        self.launcher = launcher
        self._systemd = systemd

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`runward run` with these arguments."""
        return self.start_words(*self.launcher.argv(*arguments))

    def start_words(self, *words: str) -> subprocess.Popen[bytes]:
        """Any command."""
        return subprocess.Popen(
            self._systemd.argv(*words),
            env=self.launcher.environment,
            cwd=self.launcher.work,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the output."""
        return self.end_of(self.start(*arguments))

    def end_of(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        """The exit code and the output of a command that was started here."""
        output, complaints = process.communicate()
        self._systemd.check(process.returncode, complaints.decode())
        return process.returncode, output.decode()


@contextmanager
def scoped(launcher: Launcher) -> Iterator[Scoped]:
    user = launcher.work.stat().st_uid
    with user_systemd(launcher.work.parent / "home", user) as started:
        yield Scoped(launcher, started)


@pytest.fixture
def systemd(launcher: Launcher) -> Iterator[Scoped]:
    with scoped(launcher) as systemd:
        yield systemd


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
    code, _ = systemd.run(*arguments, "--", sys.executable, evil_rounds.TREE, how)

    assert code == (124 if how == "stay" else 0)
    assert members(str(systemd.launcher.directory("evil"))) == []


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("user", ["launcher", "ordinary"])
def test_a_hundred_evil_trees_in_scopes_are_dead_a_second_after_their_deadlines(
    request: pytest.FixtureRequest, user: str
) -> None:
    launcher: Launcher = request.getfixturevalue(user)
    run = launcher.argv(*evil_rounds.OPTIONS, "--containment", "scope", "--name")
    rounds = 'for names; do for name in $names; do {0} "$name" -- {1} & done; wait; done'
    tree = [launcher.python, evil_rounds.TREE, "stay"]
    names = evil_rounds.batches("scoped")
    script = rounds.format(shlex.join(run), shlex.join(tree))
    with scoped(launcher) as systemd:
        systemd.end_of(systemd.start_words("sh", "-c", script, "sh", *(" ".join(each) for each in names)))
    for each in names:
        evil_rounds.check(launcher, each)
    assert launcher.read("scoped0", "run.json")["containment"] == "scope"


@pytest.mark.prove
def test_systemd_keeps_the_deadline_of_a_launcher_that_was_killed(systemd: Scoped) -> None:
    words = ["--name", "orphan", "--timeout", "5s", "--grace", "1s", "--containment", "scope"]
    process = systemd.start(*words, "--", "sh", "-c", "sleep 1000 & wait")
    wait_for(lambda: len(members(str(systemd.launcher.directory("orphan")))) == 2, "the command")
    launcher = systemd.launcher.read("orphan", "run.json")["launcher"]
    assert isinstance(launcher, dict)
    # The script that holds systemd waits for its command: it is stopped meanwhile, or it would end both.
    process.send_signal(signal.SIGSTOP)
    os.kill(int(str(launcher["pid"])), signal.SIGKILL)

    wait_for(lambda: not members(str(systemd.launcher.directory("orphan"))), "systemd's deadline")
    assert not (systemd.launcher.directory("orphan") / "exit.json").exists()
    process.send_signal(signal.SIGCONT)
    process.communicate()
