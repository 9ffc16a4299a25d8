"""A command's output: into the log and on to the reader, whatever the reader does."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.launching import ENTRY, Launcher
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.disk import file_systems
from runward.daemon.launch.output import PassedStream, RunLog


def test_output_is_passed_on_and_logged_each_stream_for_itself(launcher: Launcher) -> None:
    result = launcher.run("--name", "both", "--", "sh", "-c", "printf out; printf err >&2")

    assert (result.stdout, result.stderr) == (b"out", b"err")
    assert (launcher.directory("both") / "stdout.log").read_bytes() == b"out"
    assert (launcher.directory("both") / "stderr.log").read_bytes() == b"err"


def test_output_comes_as_it_is_written_and_not_at_the_end(launcher: Launcher) -> None:
    process = launcher.start(
        "--name", "live", "--", "sh", "-c", "echo first; cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None

    assert process.stdout.readline() == b"first\n"
    assert (launcher.directory("live") / "stdout.log").read_bytes() == b"first\n"
    process.stdin.write(b"second\n")
    process.stdin.close()
    assert process.stdout.readline() == b"second\n"
    assert process.wait() == 0
    process.stdout.close()


def test_megabytes_come_through_whole(launcher: Launcher) -> None:
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 20000)"
    result = launcher.run("--name", "much", "--", "python3", "-c", script)

    assert result.stdout == bytes(range(256)) * 20000
    assert (launcher.directory("much") / "stdout.log").read_bytes() == result.stdout


def test_a_reader_that_goes_away_stops_neither_command_nor_log(launcher: Launcher) -> None:
    count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done; echo done > end"
    process = launcher.start("--name", "unread", "--", "sh", "-c", count, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()

    assert process.wait() == 0
    log = (launcher.directory("unread") / "stdout.log").read_text().splitlines()
    assert (len(log), log[-1]) == (20000, "line 20000")
    assert (launcher.work / "end").exists()


def test_a_pipe_that_nobody_ever_read_stops_nothing_either(launcher: Launcher) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = launcher.start("--name", "nobody", "--", "echo", "word", stdout=writer)
    os.close(writer)

    assert process.wait() == 0
    assert (launcher.directory("nobody") / "stdout.log").read_bytes() == b"word\n"


def test_a_reader_that_stands_still_does_not_keep_the_timeout_from_holding(launcher: Launcher) -> None:
    process = launcher.start(
        "--name", "stuck", "--timeout", "500ms", "--grace", "200ms", "--", "yes", stdout=subprocess.PIPE
    )

    wait_for(lambda: (launcher.directory("stuck") / "exit.json").exists(), "the end, though nobody reads")
    assert launcher.ending("stuck")["cause"] == "timed_out"
    assert process.wait() == 124, "and the launcher waits for the reader no longer than the grace"
    assert process.stdout is not None
    process.stdout.close()


def test_a_slow_reader_gets_everything_after_the_end_was_recorded(launcher: Launcher) -> None:
    script = "import sys; sys.stdout.buffer.write(b'x' * 100000)"
    process = launcher.start("--name", "slow", "--", "python3", "-c", script, stdout=subprocess.PIPE)
    wait_for(lambda: (launcher.directory("slow") / "exit.json").exists(), "the end, before anything is read")

    assert process.poll() is None
    assert process.stdout is not None
    assert len(process.stdout.read()) == 100000
    assert process.wait() == 0
    process.stdout.close()


def test_the_callers_pipe_is_not_made_non_blocking(launcher: Launcher) -> None:
    reader, writer = os.pipe()
    process = launcher.start("--", "echo", "word", stdout=writer)

    assert process.wait() == 0
    assert os.get_blocking(writer)
    assert os.read(reader, 10) == b"word\n"
    os.close(reader)
    os.close(writer)


def test_output_goes_on_to_a_socket(launcher: Launcher) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        script = "import sys; sys.stdout.buffer.write(b'x' * 1000000)"
        process = launcher.start("--name", "socket", "--", "python3", "-c", script, stdout=theirs.fileno())
        theirs.close()
        received = 0
        while content := ours.recv(65536):
            received += len(content)

    assert process.wait() == 0
    assert received == 1000000
    assert (launcher.directory("socket") / "stdout.log").stat().st_size == 1000000


def test_output_goes_on_into_a_file_after_what_is_there(launcher: Launcher) -> None:
    file = launcher.work / "all.txt"
    with file.open("ab") as appended:
        appended.write(b"before\n")
        appended.flush()
        process = launcher.start("--", "echo", "word", stdout=appended.fileno())
        assert process.wait() == 0

    assert file.read_bytes() == b"before\nword\n"


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_stream_is_no_trouble(launcher: Launcher, closed: int) -> None:
    words = launcher.shell_words("--name", "closed", "--", "sh", "-c", "echo out; echo err >&2")
    result = subprocess.run(
        ["sh", "-c", f"exec {words} {closed}>&-"],
        env=launcher.environment,
        cwd=launcher.work,
        capture_output=True,
        check=False,
    )

    assert result.returncode == 0
    assert (launcher.directory("closed") / "stdout.log").read_bytes() == b"out\n"
    assert (launcher.directory("closed") / "stderr.log").read_bytes() == b"err\n"


def test_a_log_that_cannot_be_written_is_reported_and_the_output_goes_on(launcher: Launcher) -> None:
    # A limit on the size of files stands for a full disk: both refuse the write.
    words = launcher.shell_words("--name", "full", "--", "sh", "-c", "yes | head -c 200000")
    result = subprocess.run(
        ["bash", "-c", f"ulimit -f 64; trap '' XFSZ; exec {words}"],
        env=launcher.environment,
        cwd=launcher.work,
        capture_output=True,
        check=False,
    )

    assert result.returncode == 0
    assert len(result.stdout) == 200000
    assert (launcher.directory("full") / "stdout.log").stat().st_size == 65536
    assert b"the log of the run is incomplete" in result.stderr
    assert launcher.ending("full")["exit_code"] == 0


class Output:
    """A stream of a command whose log lies on a disk with so much room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: Path, low_disk: int | None = None) -> None:
        self.free = 1 << 40
        self.looks = 0
        self.log = log
        self._source, self._command = os.pipe()
        os.set_blocking(self._source, False)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.stream = PassedStream(self._source, RunLog(descriptor, -1, "", 0), None, low_disk)
        monkeypatch.setattr(file_systems, "space_of", self._space)

    def _space(self, place: Path | int) -> file_systems.Space:
        self.looks += 1
        return file_systems.Space(self.free, 1 << 40)

    def write(self, megabytes: int) -> None:
        """The command writes so much, and all of it is taken in."""
        for _ in range(megabytes << 4):
            os.write(self._command, b"x" * (1 << 16))
            self.stream.take_in()


def test_a_log_ends_where_its_disk_is_low_and_the_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = Output(monkeypatch, tmp_path / "stdout.log")
    output.write(15)
    output.free = (256 << 20) - 1
    assert output.stream.log_problem is None
    output.write(10)
    output.free = 1 << 40
    output.write(10)
    said = b"less than 256 MB is free on its disk (low_disk)"
    assert str(output.stream.log_problem).encode() == said
    log = output.log.read_bytes()
    last = b"\nrunward: the log ends here: %s; the command continues\n" % said
    assert (len(log.removesuffix(last)), log.endswith(last)) == ((16 << 20) - (1 << 16), True)
    assert output.looks == 2


def test_the_limit_of_a_log_is_the_setting_and_none_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for low_disk, is_whole in ((0, True), (4096, True), (4098, False)):
        output = Output(monkeypatch, tmp_path / f"{low_disk}.log", low_disk)
        output.free = 4097
        output.write(9)
        assert (output.stream.log_problem is None) == is_whole


def test_on_a_real_disk_a_command_that_never_stops_writing_leaves_room(launcher: Launcher) -> None:
    disk = launcher.work / "disk"
    disk.mkdir()
    words = launcher.shell_words("--name", "endless", "--", "sh", "-c", "yes | head -c 80000000; exit 3")
    ran = f"mount -t tmpfs -o size=44m tmpfs {disk} && {words} > /dev/null; echo $?"
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{ran}; tail -n 1 {disk}/runs/endless/stdout.log"],
        env=launcher.environment | {"RUNWARD_STATE_DIR": str(disk)},
        cwd=launcher.work,
        capture_output=True,
        check=False,
    )
    if b"unshare" in result.stderr:
        pytest.skip(f"no file system can be mounted here: {result.stderr.decode().strip()}")
    said = "less than 4 MB is free on its disk (low_disk)"
    assert result.stdout.decode().splitlines() == [
        "3",
        f"runward: the log ends here: {said}; the command continues",
    ]
    assert result.stderr.decode().count(said) == 1


def test_what_a_leftover_process_writes_last_is_still_logged(launcher: Launcher) -> None:
    script = "(sleep 0.05; echo late) & echo early"
    entry = f"from runward.daemon.launch import supervision; supervision._SETTLE_S = {PATIENCE_S}; {ENTRY}"
    words = [sys.executable, "-c", entry, "run", "--name", "late", "--", "sh", "-c", script]
    ran = subprocess.run(words, env=launcher.environment, cwd=launcher.work, capture_output=True, check=True)

    assert ran.stdout == b"early\nlate\n"
    assert (launcher.directory("late") / "stdout.log").read_bytes() == b"early\nlate\n"
    assert launcher.ending("late")["survivors_killed"] == 0


def test_logs_are_new_files_of_the_run(launcher: Launcher, tmp_path: Path) -> None:
    launcher.run("--name", "new", "--", "true")

    assert sorted(path.name for path in launcher.directory("new").iterdir()) == [
        "artifacts",
        "exit.json",
        "process.json",
        "run.json",
        "stderr.log",
        "stdout.log",
    ]
