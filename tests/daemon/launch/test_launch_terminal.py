"""A command at a terminal: it is recorded, it works there as without a launcher, and a key arrives once."""

import os
import pty
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.daemon.launching import Launcher, members
from tests.waiting import PATIENCE_S, wait_for

INTERRUPTIBLE = """
import os, signal, sys
seen = 0
def note(number, frame):
    global seen
    seen += 1
    os.write(1, f"interrupt {seen}\\n".encode())  # print would not bear to be interrupted by itself
signal.signal(signal.SIGINT, note)
print("ready", flush=True)
for line in sys.stdin:
    print("read", line.strip(), flush=True)
    if line.startswith("quit"):
        break
sys.exit(int(line.split()[1]))
"""


DEAF = """
import os, signal
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\\n"))
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


class Terminal:
    """A launcher in a session of its own, with a pseudo-terminal; `pid` is its session's leader."""

    def __init__(self, launcher: Launcher, *arguments: str, pipe_stdout: int | None = None) -> None:
        self.output = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.chdir(launcher.work)
            if pipe_stdout is not None:
                os.dup2(pipe_stdout, 1)
            argv = launcher.argv(*arguments)
            os.execve(argv[0], argv, launcher.environment)

    def type(self, keys: bytes) -> None:
        """Presses keys."""
        os.write(self._master, keys)

    def resize(self, lines: int, columns: int) -> None:
        """Drags a corner of the window."""
        termios.tcsetwinsize(self._master, (lines, columns))

    def modes(self) -> list[Any]:
        """What the window's terminal is set to."""
        return termios.tcgetattr(self._master)

    def is_cooked(self) -> bool:
        """Whether what is typed is read by lines."""
        return bool(self.modes()[3] & termios.ICANON)

    def expect(self, text: bytes) -> None:
        """Waits until the screen has shown this, after what was expected before."""
        give_up = time.monotonic() + PATIENCE_S
        while text not in self.output:
            assert time.monotonic() < give_up, f"{text!r} is not in {self.output!r}"
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self.output += os.read(self._master, 4096)
                except OSError:
                    pytest.fail(f"the terminal was left before {text!r}: {self.output!r}")
        self.output = self.output.partition(text)[2]

    def wait(self) -> int:
        """The exit code; what is shown meanwhile is read."""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            if select.select([self._master], [], [], 0.01)[0]:
                try:
                    self.output += os.read(self._master, 4096)
                except OSError:
                    continue

    def hang_up(self) -> None:
        """Closes the window."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        """Ends what is left."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self._master >= 0:
            os.close(self._master)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def opened(terminals: list[Terminal], launcher: Launcher, *arguments: str) -> Terminal:
    terminals.append(Terminal(launcher, *arguments))
    return terminals[-1]


def test_what_a_command_writes_to_a_terminal_is_recorded_in_order(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    script = "tty; test -t 0 -a -t 1 -a -t 2 && echo all three; echo oh >&2; echo last"
    terminal = opened(terminals, launcher, "--name", "tty", "--", "sh", "-c", script)
    terminal.expect(b"/dev/pts/")
    terminal.expect(b"all three\r\noh\r\nlast\r\n")

    assert terminal.wait() == 0
    log = (launcher.directory("tty") / "stdout.log").read_bytes()
    assert log.endswith(b"\nall three\noh\nlast\n")
    assert not (launcher.directory("tty") / "stderr.log").exists()  # a terminal shows both as one


def test_a_command_that_ends_at_once_is_shown_and_recorded_whole(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, launcher, "--name", "much", "--", "seq", "30000")

    assert terminal.wait() == 0
    terminal.expect(b"\n29999\r\n30000\r\n")
    assert (launcher.directory("much") / "stdout.log").read_text().splitlines() == [
        str(number) for number in range(1, 30001)
    ]


SIZES = """
import os, signal
def tell(*_):
    os.write(1, b"size %d %d\\n" % tuple(os.get_terminal_size(1))[::-1])
signal.signal(signal.SIGWINCH, tell)
tell()
while True:
    signal.pause()
"""


def test_a_command_knows_the_size_of_the_window_and_when_it_changes(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, launcher, "--name", "sized", "--", sys.executable, "-c", SIZES)
    terminal.expect(b"size 0 0")
    terminal.resize(40, 120)
    terminal.expect(b"size 40 120")
    terminal.resize(24, 80)
    terminal.expect(b"size 24 80")
    terminal.type(b"\x03")

    assert terminal.wait() == 130


RAW = """
import os, signal, sys, termios, tty
tty.setraw({descriptor}, termios.TCSANOW)
if {descriptor}:
    os.write(1, b"set\\n")
    os.read(0, 1)  # there is no line, so that a single key arrives only where the caller's terminal is set, too
os.write(1, b"ready\\n")
signal.pause()
"""


@pytest.mark.parametrize("descriptor", [0, 1])
def test_a_terminal_that_a_killed_command_left_raw_is_restored(
    launcher: Launcher, terminals: list[Terminal], descriptor: int
) -> None:
    words = ["--name", "raw", "--", sys.executable, "-c", RAW.format(descriptor=descriptor)]
    terminal = opened(terminals, launcher, *words)
    before = terminal.modes()
    if descriptor:
        terminal.expect(b"set")
        wait_for(lambda: not terminal.is_cooked(), "a terminal that is set raw")
        terminal.type(b"k")
    terminal.expect(b"ready")
    assert not terminal.is_cooked()
    os.kill(launcher.pid("raw"), signal.SIGKILL)

    assert terminal.wait() == 137
    assert terminal.modes() == before


def test_modes_that_a_command_set_and_left_are_left_to_it(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, launcher, "--name", "stty", "--", "stty", "-echo")
    before = terminal.modes()

    assert terminal.wait() == 0
    assert terminal.modes()[3] == before[3] & ~termios.ECHO


def test_the_end_of_the_input_reaches_the_command(launcher: Launcher, terminals: list[Terminal]) -> None:
    terminal = opened(terminals, launcher, "--name", "input", "--", "sh", "-c", "echo ready; cat; echo over")
    terminal.expect(b"ready")
    terminal.type(b"word\n\x04")
    terminal.expect(b"over")

    assert terminal.wait() == 0
    assert (launcher.directory("input") / "stdout.log").read_bytes() == b"ready\nword\nover\n"


def test_a_terminal_beside_a_pipe_is_recorded_apart(launcher: Launcher, terminals: list[Terminal]) -> None:
    reader, writer = os.pipe()
    script = "test -t 2 && echo to the pipe; echo to the screen >&2"
    terminals.append(Terminal(launcher, "--name", "half", "--", "sh", "-c", script, pipe_stdout=writer))
    os.close(writer)
    terminals[0].expect(b"to the screen")

    assert terminals[0].wait() == 0
    assert os.read(reader, 100) == b"to the pipe\n"
    os.close(reader)
    assert (launcher.directory("half") / "stdout.log").read_bytes() == b"to the pipe\n"
    assert (launcher.directory("half") / "stderr.log").read_bytes() == b"to the screen\n"


def test_a_key_interrupts_an_interactive_command_once_and_does_not_end_it(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    arguments = ["--name", "agent", "--grace", "100ms", "--", sys.executable, "-c", INTERRUPTIBLE]
    terminal = opened(terminals, launcher, *arguments)
    terminal.expect(b"ready")
    terminal.type(b"\x03")
    terminal.expect(b"interrupt 1")
    terminal.type(b"\x03")
    terminal.expect(b"interrupt 2")
    terminal.type(b"quit 0\n")
    terminal.expect(b"read quit 0")

    assert terminal.wait() == 0
    assert b"interrupt" not in terminal.output
    assert launcher.ending("agent")["cause"] == "exited"


def test_a_key_that_ends_an_interactive_command_is_a_persons_interruption(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    terminal = opened(terminals, launcher, "--name", "cut", "--", "sh", "-c", "echo ready; exec sleep 100")
    terminal.expect(b"ready")
    terminal.type(b"\x03")

    assert terminal.wait() == 130
    ending = launcher.ending("cut")
    assert (ending["cause"], ending["signal"], ending["exit_code"]) == ("cancelled", signal.SIGINT, None)


def test_a_key_stops_a_command_whose_output_goes_elsewhere_with_its_tree(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    reader, writer = os.pipe()
    arguments = ["--name", "deaf", "--grace", "1s", "--", sys.executable, "-c", DEAF]
    terminals.append(Terminal(launcher, *arguments, pipe_stdout=writer))
    os.close(writer)
    assert os.read(reader, 100) == b"ready\n"
    terminals[0].type(b"\x03")

    assert terminals[0].wait() == 130
    assert os.read(reader, 100) == b"interrupted\n"
    os.close(reader)
    assert launcher.ending("deaf")["cause"] == "cancelled"
    assert members(str(launcher.directory("deaf"))) == []


def test_a_command_outside_the_terminals_group_gets_the_key_from_the_launcher(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    script = "import os, runpy, sys; os.setpgid(0, 0); print('ready', flush=True); os.execvp('sleep', ['sleep', '100'])"
    terminal = opened(terminals, launcher, "--name", "apart", "--", sys.executable, "-c", script)
    terminal.expect(b"ready")
    terminal.type(b"\x03")

    assert terminal.wait() == 130
    assert launcher.ending("apart")["signal"] == signal.SIGINT


def test_a_window_that_is_closed_ends_the_run(launcher: Launcher, terminals: list[Terminal]) -> None:
    terminal = opened(terminals, launcher, "--name", "closed", "--", "sh", "-c", "echo ready; exec sleep 100")
    terminal.expect(b"ready")
    terminal.hang_up()

    wait_for(lambda: (launcher.directory("closed") / "exit.json").exists(), "the end of the run")
    ending = launcher.ending("closed")
    assert (ending["cause"], ending["signal"]) == ("cancelled", signal.SIGHUP)
    assert members(str(launcher.directory("closed"))) == []


def test_a_run_can_be_suspended_and_continued_like_any_job(
    launcher: Launcher, terminals: list[Terminal]
) -> None:
    # An interactive shell gives each job a process group of its own and the terminal in turn.
    words = launcher.shell_words("--name", "job", "--", "cat")
    (launcher.work / "job.sh").write_text(f"set -m\n{words}\necho suspended; fg %1; echo ended with $?\n")
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(launcher.work)
        os.execve("/bin/bash", ["bash", "job.sh"], launcher.environment)
    shell = Terminal.__new__(Terminal)
    shell.output, shell.pid, shell._master = b"", pid, master
    terminals.append(shell)
    launcher.pid("job")
    shell.type(b"one\n")
    shell.expect(b"one\r\none\r\n")
    shell.type(b"\x1a")
    shell.expect(b"suspended")
    shell.expect(b"-- cat\r\n")
    shell.type(b"two\n")
    shell.expect(b"two\r\ntwo\r\n")
    shell.type(b"\x04")
    shell.expect(b"ended with 0")

    assert shell.wait() == 0
    assert re.fullmatch(r"exited", str(launcher.ending("job")["cause"]))
