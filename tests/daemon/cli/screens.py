"""Commands on terminals of a given size, and what is shown there."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S


class Screen:
    """A terminal of a given size, with the command in it."""

    def __init__(self, place: Place, rows: int, columns: int, *arguments: str, **environment: str) -> None:
        self.shown = ""
        self._has_ended, self.is_open = False, True
        ready, go = os.pipe()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.read(ready, 1)
            os.chdir(place.directory)
            argv = self.argv(place, *arguments)
            os.execve(argv[0], argv, place.environment | {"TERM": "xterm"} | environment)
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.master)
        os.write(go, b"!")
        os.close(ready)
        os.close(go)

    def argv(self, place: Place, *arguments: str) -> list[str]:
        """The words of the program in the terminal."""
        return place.argv(*arguments)

    def resize(self, rows: int, columns: int) -> None:
        """As when its window is drawn larger or smaller."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str, times: int = 1) -> str:
        """What was shown since the last call, up to the text's so many-th time."""
        give_up = time.monotonic() + PATIENCE_S
        while self.shown.count(text) < times:
            assert time.monotonic() < give_up, self.shown
            if select.select([self.master], [], [], 1)[0]:
                self.shown += os.read(self.master, 65536).decode(errors="replace")
        shown, self.shown = self.shown, ""
        return shown

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def end(self) -> int:
        """The exit code; what is still shown is thrown away."""
        while True:
            try:
                if not os.read(self.master, 65536):
                    break
            except OSError:
                break  # nobody has the terminal open any more
        return self.waited()

    def waited(self) -> int:
        """The exit code of the command, which ends by itself."""
        self._has_ended = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        """End the command, if it has not ended, and take the terminal away."""
        if not self._has_ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.is_open:
            os.close(self.master)


@contextmanager
def screen(place: Place, rows: int, columns: int, *arguments: str) -> Iterator[Screen]:
    made = Screen(place, rows, columns, *arguments)
    try:
        yield made
    finally:
        made.close()
