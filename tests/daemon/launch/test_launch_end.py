"""The end of a run is the end of its whole tree: at the timeout, and when its command has ended."""

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.daemon.launch import evil_rounds
from tests.daemon.launching import Launcher, is_alive, members
from tests.waiting import wait_for


def test_a_timeout_asks_the_whole_tree_to_end(launcher: Launcher) -> None:
    report = "trap 'echo $0 was asked >> asked; exit 0' TERM; echo $0 >> up; while :; do sleep 0.01; done"
    script = f'sh -c "{report}" child & {report}'
    result = launcher.run(
        "--name", "late", "--timeout", "2s", "--", "sh", "-c", script.replace("$0", "\\$0", 2), "main"
    )

    assert result.returncode == 124
    ending = launcher.ending("late")
    assert (ending["cause"], ending["exit_code"], ending["signal"]) == ("timed_out", 0, None)
    assert ending["survivors_killed"] == 0
    assert sorted((launcher.work / "asked").read_text().split("\n")) == [
        "",
        "child was asked",
        "main was asked",
    ]


def test_who_ignores_the_request_is_killed_after_the_grace(launcher: Launcher) -> None:
    script = "trap '' TERM; sleep 100 & while :; do sleep 100; done"
    began = time.monotonic()
    result = launcher.run("--name", "deaf", "--timeout", "1s", "--grace", "300ms", "--", "sh", "-c", script)

    assert result.returncode == 124
    assert time.monotonic() - began >= 1.3
    ending = launcher.ending("deaf")
    assert (ending["cause"], ending["exit_code"], ending["signal"]) == ("timed_out", None, signal.SIGKILL)
    assert ending["survivors_killed"] == 2
    assert 1.3 <= float(str(ending["duration_s"])) < 30
    assert members(str(launcher.directory("deaf"))) == []


def test_a_stopped_command_is_asked_too(launcher: Launcher) -> None:
    script = "trap 'exit 9' TERM; kill -STOP $$"
    result = launcher.run("--name", "stopped", "--timeout", "1s", "--grace", "20s", "--", "sh", "-c", script)

    assert result.returncode == 124
    assert launcher.ending("stopped")["exit_code"] == 9


def test_the_grace_ends_as_soon_as_the_tree_is_gone(launcher: Launcher) -> None:
    launcher.run("--name", "quick", "--timeout", "200ms", "--grace", "1h", "--", "sleep", "10000")

    assert launcher.ending("quick")["signal"] == signal.SIGTERM


def test_leftovers_of_a_command_that_ended_are_dead_and_counted(launcher: Launcher) -> None:
    script = "setsid sleep 1000 & sleep 1000 & exit 7"
    result = launcher.run("--name", "leftovers", "--", "sh", "-c", script)

    assert result.returncode == 7
    assert launcher.ending("leftovers")["survivors_killed"] == 2
    assert members(str(launcher.directory("leftovers"))) == []


def test_without_containment_leftovers_live_on(launcher: Launcher) -> None:
    script = "setsid sleep 1000 > /dev/null 2>&1 & echo $!"
    result = launcher.run("--name", "free", "--containment", "none", "--", "sh", "-c", script)

    left = int(result.stdout)
    assert is_alive(left)
    assert launcher.read("free", "run.json")["containment"] == "none"
    assert launcher.ending("free")["survivors_killed"] == 0
    os.kill(left, signal.SIGKILL)


def test_children_that_the_launcher_had_before_are_not_its_runs(launcher: Launcher) -> None:
    words = launcher.shell_words("--name", "exec", "--", "true")
    process = launcher.start(
        "--name", "outer", "--", "bash", "-c", f"sleep 1000 & echo $! > pid; exec {words}"
    )
    wait_for(lambda: (launcher.work / "pid").exists() and (launcher.work / "pid").read_text(), "the child")
    pid = int((launcher.work / "pid").read_text())
    wait_for(lambda: (launcher.state / "runs" / "exec" / "exit.json").exists(), "the end of the inner run")

    assert launcher.ending("exec")["survivors_killed"] == 0
    assert process.wait() == 0
    assert launcher.ending("outer")["survivors_killed"] == 1, "it was the outer run's"
    assert not is_alive(pid)


@pytest.mark.parametrize("containment", ["auto", "subreaper", "cgroup", "pidns", "scope"])
@pytest.mark.parametrize("how", ["stay", "exit"])
def test_nobody_of_an_evil_tree_is_left(launcher: Launcher, containment: str, how: str) -> None:
    arguments = ["--timeout", "3s", "--grace", "500ms", "--containment", containment, "--name", "evil"]
    result = launcher.run(*arguments, "--", sys.executable, evil_rounds.TREE, how)
    if result.returncode == 2 and containment not in ("auto", "subreaper"):
        pytest.skip(result.stderr.decode().strip())

    assert members(str(launcher.directory("evil"))) == []
    assert result.returncode == (124 if how == "stay" else 0)
    assert result.stdout == b"standing\n"
    assert launcher.read("evil", "run.json")["containment"] == containment or containment == "auto"
    assert int(str(launcher.ending("evil")["survivors_killed"])) >= 3


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("user", ["launcher", "ordinary"])
@pytest.mark.parametrize("containment", ["subreaper", "cgroup", "pidns"])
def test_a_hundred_evil_trees_are_dead_a_second_after_their_deadlines(
    request: pytest.FixtureRequest, user: str, containment: str
) -> None:
    launcher: Launcher = request.getfixturevalue(user)
    options = [*evil_rounds.OPTIONS, "--containment", containment]
    tree = [launcher.python, evil_rounds.TREE, "stay"]
    for names in evil_rounds.batches("evil"):
        started = [
            launcher.start(*options, "--name", name, "--", *tree, stderr=subprocess.PIPE) for name in names
        ]
        complaints = [process.communicate()[1] for process in started]
        if started[0].returncode == 2:
            pytest.skip(complaints[0].decode().strip())
        evil_rounds.check(launcher, names)
