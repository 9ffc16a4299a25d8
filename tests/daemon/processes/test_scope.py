"""Runs in a transient scope of a real systemd user manager, which the test starts beside the machine's own init."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.daemon.launching import Launcher, members, until

HERE = Path(__file__).parent
NEEDED = ("unshare", "busctl", "systemctl", "dbus-daemon", "/lib/systemd/systemd")
SYSTEMD_CANNOT_START = 77


class UserSystemd:
    """Starts commands beside a user's systemd of their own."""

    def __init__(self, launcher: Launcher, cgroup: str) -> None:
        self.launcher = launcher
        self._cgroup = cgroup

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`runward run` with these arguments."""
        script = [str(HERE / "user_systemd.sh"), str(self.launcher.work.parent / "home"), self._cgroup]
        return subprocess.Popen(
            ["unshare", "--mount", "bash", *script, *self.launcher.argv(*arguments)],
            env=self.launcher.environment,
            cwd=self.launcher.work,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the output."""
        process = self.start(*arguments)
        output, complaints = process.communicate()
        if process.returncode == SYSTEMD_CANNOT_START:
            pytest.skip(f"systemd --user doesn't start here: {complaints.decode()}")
        return process.returncode, output.decode()


@pytest.fixture
def systemd(launcher: Launcher) -> Iterator[UserSystemd]:
    mount = next(
        (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if " cgroup2 " in line),
        None,
    )
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if os.getuid() != 0 or mount is None or missing:
        pytest.skip(f"needs root, cgroups of version 2 and {', '.join(missing) or 'nothing more'}")
    cgroup = Path(mount) / f"runward-test-{uuid4().hex}"
    yield UserSystemd(launcher, cgroup.name)
    if cgroup.exists():
        until(lambda: "populated 0" in (cgroup / "cgroup.events").read_text(), "the end of systemd")
        for directory, _, _ in os.walk(cgroup, topdown=False):
            os.rmdir(directory)


def test_the_scope_is_the_first_choice_where_the_users_bus_answers(systemd: UserSystemd) -> None:
    show = "grep 0:: /proc/self/cgroup; systemctl --user list-units --plain --no-legend 'runward-*'"
    code, output = systemd.run("--name", "scoped", "--", "sh", "-c", show)

    assert code == 0
    cgroup, unit = output.splitlines()
    assert unit.endswith("active running Runward: scoped")
    assert unit.split()[0] == os.path.basename(cgroup)
    assert systemd.launcher.read("scoped", "run.json")["containment"] == "scope"


def test_the_command_keeps_environment_and_process(systemd: UserSystemd) -> None:
    _, output = systemd.run("--name", "same", "--", "sh", "-c", "echo $$; env")

    pid, *environment = output.splitlines()
    assert int(pid) == systemd.launcher.pid("same")
    assert [line for line in environment if line.startswith(("INVOCATION_ID", "NOTIFY_SOCKET"))] == []


@pytest.mark.parametrize("how", ["stay", "exit"])
def test_nobody_of_an_evil_tree_is_left_in_a_scope(systemd: UserSystemd, how: str) -> None:
    arguments = ["--timeout", "1s", "--grace", "500ms", "--name", "evil", "--containment", "scope"]
    code, _ = systemd.run(*arguments, "--", sys.executable, str(HERE / "evil_tree.py"), how)

    assert code == (124 if how == "stay" else 0)
    assert members(str(systemd.launcher.directory("evil"))) == []


@pytest.mark.prove
def test_systemd_keeps_the_deadline_of_a_launcher_that_was_killed(systemd: UserSystemd) -> None:
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
