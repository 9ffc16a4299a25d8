"""The end of a run is the end of its whole tree: at the timeout, and when its command has ended."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import SOURCES, Launcher, is_alive, members, until

EVIL_TREE = str(Path(__file__).with_name("evil_tree.py"))


def test_a_timeout_asks_the_whole_tree_to_end(launcher: Launcher) -> None:
    report = "trap 'echo $0 was asked >> asked; exit 0' TERM; echo $0 >> up; while :; do sleep 0.01; done"
    script = f'sh -c "{report}" child & {report}'
    result = launcher.run(
        "--name", "late", "--timeout", "1s", "--", "sh", "-c", script.replace("$0", "\\$0", 2), "main"
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
    result = launcher.run(
        "--name", "deaf", "--timeout", "300ms", "--grace", "300ms", "--", "sh", "-c", script
    )

    assert result.returncode == 124
    assert time.monotonic() - began >= 0.6
    ending = launcher.ending("deaf")
    assert (ending["cause"], ending["exit_code"], ending["signal"]) == ("timed_out", None, signal.SIGKILL)
    assert ending["survivors_killed"] == 2
    assert 0.6 <= float(str(ending["duration_s"])) < 5
    assert members(str(launcher.directory("deaf"))) == []


def test_a_stopped_command_is_asked_too(launcher: Launcher) -> None:
    script = "trap 'exit 9' TERM; kill -STOP $$"
    result = launcher.run(
        "--name", "stopped", "--timeout", "300ms", "--grace", "20s", "--", "sh", "-c", script
    )

    assert result.returncode == 124
    assert launcher.ending("stopped")["exit_code"] == 9


def test_the_grace_ends_as_soon_as_the_tree_is_gone(launcher: Launcher) -> None:
    began = time.monotonic()
    launcher.run("--name", "quick", "--timeout", "200ms", "--grace", "25s", "--", "sleep", "100")

    assert time.monotonic() - began < 20
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
    words = " ".join(f"'{word}'" for word in launcher.argv("--name", "exec", "--", "true"))
    process = launcher.start(
        "--name", "outer", "--", "bash", "-c", f"sleep 1000 & echo $! > pid; exec {words}"
    )
    pid = int(
        until(lambda: (launcher.work / "pid").exists() and (launcher.work / "pid").read_text(), "the child")
    )
    until(lambda: (launcher.state / "runs" / "exec" / "exit.json").exists(), "the end of the inner run")

    assert launcher.ending("exec")["survivors_killed"] == 0
    assert process.wait() == 0
    assert launcher.ending("outer")["survivors_killed"] == 1, "it was the outer run's"
    assert not is_alive(pid)


@pytest.mark.parametrize("containment", ["auto", "subreaper", "cgroup", "pidns", "scope"])
@pytest.mark.parametrize("how", ["stay", "exit"])
def test_nobody_of_an_evil_tree_is_left(launcher: Launcher, containment: str, how: str) -> None:
    arguments = ["--timeout", "1s", "--grace", "500ms", "--containment", containment, "--name", "evil"]
    result = launcher.run(*arguments, "--", sys.executable, EVIL_TREE, how)
    if result.returncode == 2 and containment not in ("auto", "subreaper"):
        pytest.skip(result.stderr.decode().strip())

    assert members(str(launcher.directory("evil"))) == []
    assert result.returncode == (124 if how == "stay" else 0)
    assert result.stdout == b"standing\n"
    assert int(str(launcher.ending("evil")["survivors_killed"])) >= 3


@pytest.fixture
def ordinary(tmp_path: Path) -> Iterator[Launcher]:
    """A launcher that an ordinary user runs; where the tests are not root's, that is any."""
    if os.getuid() != 0:
        launcher = Launcher(tmp_path)
    else:
        # pytest's own directories are root's alone, and so may this interpreter be.
        place = Path(tempfile.mkdtemp())
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        launcher = Launcher(place, [*prefix, _python_for_all(prefix)])
        for directory in (place, launcher.work):
            os.chown(directory, 65534, 65534)
    yield launcher
    launcher.close()
    if os.getuid() == 0:
        shutil.rmtree(place)


def _python_for_all(prefix: list[str]) -> str:
    ask = "import sys, runward.daemon.cli; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        # By a shell: setpriv(1) itself still finds what only root may see.
        words = [*prefix, "sh", "-c", 'exec "$@"', "sh", python, "-c", ask]
        result = subprocess.run(words, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, check=False)
        if result.returncode == 0:
            return python
    pytest.skip("no Python 3.11 here that an ordinary user may run")


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("user", ["launcher", "ordinary"])
@pytest.mark.parametrize("containment", ["subreaper", "cgroup", "pidns"])
def test_a_hundred_evil_trees_are_dead_a_second_after_their_deadlines(
    request: pytest.FixtureRequest, user: str, containment: str
) -> None:
    launcher: Launcher = request.getfixturevalue(user)
    options = ["--timeout", "1s", "--grace", "500ms", "--containment", containment]
    tree = [launcher.python, EVIL_TREE, "stay"]
    for batch in range(20):
        names = [f"evil{batch}.{number}" for number in range(5)]
        started = [
            launcher.start(*options, "--name", name, "--", *tree, stderr=subprocess.PIPE) for name in names
        ]
        complaints = [process.communicate()[1] for process in started]
        if started[0].returncode == 2:
            pytest.skip(complaints[0].decode().strip())
        for name in names:
            assert members(str(launcher.directory(name))) == []
            assert launcher.ending(name)["cause"] == "timed_out", launcher.ending(name)
            began, ended = (
                (launcher.directory(name) / file).stat().st_mtime for file in ("process.json", "exit.json")
            )
            assert ended - began <= 1 + 0.5 + 1, name
