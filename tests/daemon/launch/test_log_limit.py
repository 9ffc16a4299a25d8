"""A log that reaches its limit keeps its beginning and its end, and never takes more than that."""

import os
import signal
from pathlib import Path

import pytest
from tests.daemon.launching import Launcher
from tests.waiting import wait_for

from runward.config.settings import USUAL
from runward.daemon.launch.launch import DEFAULT_LOG_LIMIT
from runward.daemon.launch.output import RunLog, omission


def test_without_settings_the_limit_is_their_default() -> None:
    assert USUAL.log_limit == DEFAULT_LOG_LIMIT


def taken(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def a_log(directory: Path, limit: int) -> RunLog:
    within = os.open(directory, os.O_RDONLY)
    descriptor = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, dir_fd=within)
    return RunLog(descriptor, within, "log", limit)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("length", [0, 99, 100, 101, 149, 200, 5003])
def test_a_log_keeps_its_beginning_and_its_end(tmp_path: Path, length: int, chunk: int) -> None:
    content = b"".join(b"%d\n" % number for number in range(length))[:length]
    log = a_log(tmp_path, 100)
    for start in range(0, length, chunk):
        log.append(content[start : start + chunk])
        assert taken(tmp_path) <= 100
    omitted = log.close()

    kept = (tmp_path / "log").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    if length <= 100:
        assert (kept, omitted) == (content, 0)
        return
    end = content[50 + omitted :]
    assert kept == content[:50] + (omission(omitted) if omitted else b"") + end
    assert 25 < len(end) <= 50


def test_a_log_without_a_limit_is_whole(tmp_path: Path) -> None:
    log = a_log(tmp_path, 0)
    log.append(b"x" * 1000)
    assert log.close() == 0
    assert (tmp_path / "log").stat().st_size == 1000


def test_a_command_that_never_stops_writing_leaves_a_log_of_the_limit(launcher: Launcher) -> None:
    script = "seq 1000000; echo last"
    ran = launcher.run("--name", "long", "--log-limit", "1MB", "--", "sh", "-c", script)

    log = (launcher.directory("long") / "stdout.log").read_bytes()
    assert ran.stdout.endswith(b"\n1000000\nlast\n")
    assert log.startswith(b"1\n2\n3\n")
    assert log.endswith(b"\n999999\n1000000\nlast\n")
    assert (1 << 20) * 3 // 4 < len(log) < (1 << 20) + 100
    (line,) = (line for line in log.split(b"\n") if line.startswith(b"runward: "))
    omitted = int(line.split()[1])
    assert len(ran.stdout) == len(log) - len(omission(omitted)) + omitted
    assert b"runward run: %d bytes are left out of the run's log (log_limit)\n" % omitted == ran.stderr


def test_the_limit_is_a_setting_and_none_is_none(launcher: Launcher) -> None:
    launcher.environment["RUNWARD_LOG_LIMIT"] = '"10KB"'
    launcher.run("--name", "set", "--", "seq", "100000")
    launcher.run("--name", "all", "--log-limit", "0B", "--", "seq", "100000")

    assert (launcher.directory("set") / "stdout.log").stat().st_size < 11 << 10
    assert (launcher.directory("all") / "stdout.log").stat().st_size == 588895


def test_a_limit_that_is_no_size_is_refused(launcher: Launcher) -> None:
    ran = launcher.run("--log-limit", "10", "--", "true")
    assert ran.returncode == 2
    assert b"--log-limit is not a size: '10'" in ran.stderr


def test_a_launcher_that_is_killed_leaves_no_more_than_the_limit(launcher: Launcher) -> None:
    process = launcher.start("--name", "killed", "--log-limit", "20KB", "--", "yes")
    directory = launcher.directory("killed")
    wait_for(lambda: (directory / "stdout.log.tail").is_dir(), "the log's end apart from its beginning")
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert (directory / "stdout.log").stat().st_size == 10 << 10
    assert taken(directory / "stdout.log.tail") <= 10 << 10


def test_a_run_that_takes_the_pieces_away_loses_nothing_of_its_log(launcher: Launcher) -> None:
    script = 'seq 100000; cd "$RUNWARD_RUN_DIR"; until mv stdout.log.tail x; do :; done; seq 100000; exit 3'
    ran = launcher.run("--name", "evil", "--log-limit", "10KB", "--", "sh", "-c", script)

    assert ran.returncode == 3
    assert (launcher.directory("evil") / "stdout.log").read_bytes().endswith(b"\n99999\n100000\n")
