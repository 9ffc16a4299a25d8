"""Signals to the launcher reach the command, and after the grace the whole tree is dead."""

import os
import signal
import subprocess
import sys

import pytest
from tests.daemon.launching import Launcher, members
from tests.waiting import wait_for

COUNT = """
import os, signal, sys, time
seen = []
def note(number, frame):
    seen.append(number)
    with open("seen", "a") as file:
        file.write(f"{number}\\n")
for number in (1, 2, 3, 10, 12, 15):
    signal.signal(number, note)
open("ready", "w").close()
until = int(sys.argv[1])
while len(seen) < until:
    time.sleep(0.01)
sys.exit(0)
"""


def started(launcher: Launcher, *options: str, count: int = 1) -> subprocess.Popen[bytes]:
    process = launcher.start("--name", "run", *options, "--", sys.executable, "-c", COUNT, str(count))
    wait_for(lambda: (launcher.work / "ready").exists(), "the command")
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_request_to_stop_is_passed_on_once_and_recorded(
    launcher: Launcher, number: signal.Signals, code: int
) -> None:
    process = started(launcher)
    process.send_signal(number)

    assert process.wait() == code
    assert (launcher.work / "seen").read_text() == f"{int(number)}\n"
    ending = launcher.ending("run")
    assert (ending["cause"], ending["signal"], ending["exit_code"]) == ("cancelled", number, None)


def test_who_does_not_stop_is_killed_with_its_tree_after_the_grace(launcher: Launcher) -> None:
    process = started(launcher, "--grace", "300ms", count=1000)
    process.terminate()

    assert process.wait() == 143
    assert launcher.ending("run")["cause"] == "cancelled"
    assert launcher.ending("run")["signal"] == signal.SIGTERM
    assert members(str(launcher.directory("run"))) == []


def test_a_second_request_kills_at_once(launcher: Launcher) -> None:
    process = started(launcher, "--grace", "1h", count=1000)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: (launcher.work / "seen").exists(), "the first request")
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue

    assert process.returncode == 130
    assert launcher.ending("run")["signal"] == signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2])
def test_other_signals_are_the_commands_business(launcher: Launcher, number: signal.Signals) -> None:
    process = started(launcher)
    process.send_signal(number)

    assert process.wait() == 0
    assert (launcher.work / "seen").read_text() == f"{int(number)}\n"
    assert launcher.ending("run")["cause"] == "exited"


def test_a_command_that_signals_its_own_group_does_not_cancel_its_run(launcher: Launcher) -> None:
    script = "trap '' TERM; kill -TERM 0; exit 6"
    process = launcher.start("--name", "own", "--", "sh", "-c", script)

    assert process.wait() == 6
    assert launcher.ending("own")["cause"] == "exited"


def test_what_the_caller_ignores_stays_ignored(launcher: Launcher) -> None:
    words = launcher.shell_words("--name", "run", "--", sys.executable, "-c", COUNT, "1")
    words = words.replace("'" + COUNT + "'", '"$CODE"')
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' HUP; exec {words}"],
        env=launcher.environment | {"CODE": COUNT},
        cwd=launcher.work,
    )
    wait_for(lambda: (launcher.work / "ready").exists(), "the command")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)

    assert process.wait() == 0
    assert (launcher.work / "seen").read_text() == "10\n", "SIGHUP came first, and went nowhere"


def test_an_interrupt_to_the_whole_group_leaves_a_whole_record(launcher: Launcher) -> None:
    process = started(launcher)
    os.killpg(process.pid, signal.SIGTERM)

    assert process.wait() == 143
    assert launcher.ending("run")["cause"] == "cancelled"
