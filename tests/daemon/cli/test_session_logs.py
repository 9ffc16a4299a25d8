"""`session logs`: what a run printed, whatever its launcher had to do or could not do any more."""

import json
import os
import re
import signal
from pathlib import Path

from tests.daemon.cli.calling import Place
from tests.waiting import wait_for


def ran(place: Place, *words: str) -> None:
    place.start("run", *words).communicate()


def test_what_a_run_printed_is_shown_without_a_daemon(place: Place) -> None:
    ran(place, "--name", "talks", "--", "sh", "-c", "echo out; echo more; echo err >&2")
    assert place.call("session", "logs", "talks").out == "out\nmore\n"
    assert place.call("session", "logs", "@last", "-n", "1").out == "more\n"
    assert place.call("session", "logs", "talks", "--stderr").out == "err\n"
    assert place.call("session", "logs", "talks", "-f").out == "out\nmore\n"
    told = place.call("session", "logs", "talks", "--json").out.splitlines()
    assert [json.loads(line) for line in told] == [{"text": "out"}, {"text": "more"}]


def test_a_link_in_place_of_the_run_directory_is_not_followed(place: Place) -> None:
    ran(place, "--name", "moved", "--", "echo", "mine")
    place.daemon_once()
    elsewhere = place.directory / "elsewhere"
    (place.runs / "moved").rename(elsewhere)
    (elsewhere / "stdout.log").write_text("somebody else's\n")
    (place.runs / "moved").symlink_to(elsewhere)
    shown = place.call("session", "logs", "moved")
    assert shown.code != 0
    assert "somebody else's" not in shown.out + place.call("session", "show", "moved").out


def test_what_would_steer_a_terminal_is_escaped_unless_the_bytes_are_asked_for(place: Place) -> None:
    ran(place, "--name", "steers", "--", "printf", r"a\tb\033[2J\r\nlast")
    assert place.call("session", "logs", "steers").out == "a\tb\\x1b[2J\nlast\n"
    raw = place.start("session", "logs", "steers", "--raw").communicate()[0]
    assert raw.replace("\r\n", "\n") == "a\tb\x1b[2J\nlast"


def test_a_long_log_is_shown_with_what_is_left_out(place: Place) -> None:
    ran(place, "--name", "long", "--log-limit", "4KB", "--", "seq", "100000")
    lines = place.call("session", "logs", "long").out.splitlines()
    assert (lines[0], lines[-1]) == ("1", "100000")
    (left_out,) = (line for line in lines if "left out" in line)
    assert left_out.startswith("runward: ")


def test_the_log_of_a_killed_launcher_is_shown_in_order(place: Place) -> None:
    directory = place.runs / "killed"
    script = "seq 5000; touch ready; exec sleep 1000"
    launcher = place.start_process("run", "--name", "killed", "--log-limit", "4KB", "--", "sh", "-c", script)
    wait_for(lambda: (place.directory / "ready").exists(), "the command's last output")
    wait_for(lambda: _newest_piece(directory).endswith(b"\n5000\n"), "its record")
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    try:
        lines = place.call("session", "logs", "killed").out.splitlines()
        last = place.call("session", "logs", "killed", "-n", "2").out
    finally:
        os.kill(json.loads((directory / "process.json").read_text())["pid"], signal.SIGKILL)
        launcher.communicate()
    assert (lines[0], lines[-1]) == ("1", "5000")
    left_out = next(number for number, line in enumerate(lines) if "left out" in line)
    before, after = (int(lines[left_out - 2]), int(lines[left_out + 2]))
    assert before < after
    assert last == "4999\n5000\n"


def _newest_piece(directory: Path) -> bytes:
    try:
        pieces = sorted(
            (directory / "stdout.log.tail").iterdir(), key=lambda path: int(path.name.split("-")[1])
        )
        return pieces[-1].read_bytes()
    except (FileNotFoundError, IndexError):
        return b""


def test_a_run_is_followed_to_its_end_over_the_joining_of_its_log(place: Place) -> None:
    script = "echo first; until test -e go; do sleep 0.05; done; seq 5000"
    launcher = place.start("run", "--name", "live", "--log-limit", "4KB", "--", "sh", "-c", script)
    wait_for(lambda: (place.runs / "live/stdout.log").exists(), "a run")
    wait_for(lambda: (place.runs / "live/process.json").exists(), "a command")
    reader = place.start("session", "logs", "live", "-f")
    assert reader.stdout is not None
    assert reader.stdout.readline() == "first\n"
    (place.directory / "go").touch()
    said, err = reader.communicate()
    launcher.communicate()
    assert reader.returncode == 0, err
    assert said.startswith("1\n2\n")
    assert said.endswith("\n4999\n5000\n")
    assert said.count("left out") >= 1


def test_show_has_command_directory_logs_and_the_last_words(place: Place) -> None:
    ran(place, "--name", "bad", "--", "sh", "-c", "printf 'no \\033[2J good\\n' >&2; exit 3")
    page = place.call("session", "show", "bad").out
    facts = dict(line.split(":", 1) for line in page.splitlines() if re.match(r"[A-Z][a-z]+:", line))
    assert facts["Command"].strip() == r"""sh -c 'printf '"'"'no \033[2J good\n'"'"' >&2; exit 3'"""
    assert facts["Cwd"].strip() == str(place.directory)
    assert str(place.runs / "bad/stdout.log") in page
    assert "Last lines of stderr.log\n\n  no \\x1b[2J good" in page


def test_a_run_that_printed_nothing_of_ours_says_why(recorded: Place) -> None:
    asked = recorded.call("session", "logs", "silent")
    assert asked.code == 3
    assert "has no stdout.log" in asked.err
