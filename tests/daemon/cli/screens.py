"""Commands on terminals of a given size, and what is shown there."""

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.daemon.cli.calling import Place
from tests.preloaded.forked import Forked
from tests.waiting import PATIENCE_S


class Screen:
    """A terminal of a given size, with the command in it, which needs no start of its own (tests/preloaded)."""

    def __init__(self, place: Place, rows: int, columns: int, *arguments: str, **environment: str) -> None:
        self.shown = ""
        self.is_open = True
        self.master, terminal = os.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.master)
        self.process = self.begin(place, terminal, arguments, {"TERM": "xterm"} | environment)
        os.close(terminal)

    def begin(
        self, place: Place, terminal: int, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> Forked | subprocess.Popen[bytes]:
        """The command, in a session of its own on this terminal."""
        everything = {**place.environment, **environment}
        return Forked(arguments, place.directory, everything, (terminal,) * 3, on_terminal=True)

    @property
    def pid(self) -> int:
        """The number of the command's process."""
        return self.process.pid

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
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """End the command, if it has not ended, and take the terminal away."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        if self.is_open:
            os.close(self.master)


class StartedScreen(Screen):
    """The same for a program that is started anew: the words of a place."""

    def begin(
        self, place: Place, terminal: int, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(place, *arguments),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=place.directory,
            env={**place.environment, **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # no thread of a test holds what this needs
        )

    def argv(self, place: Place, *arguments: str) -> list[str]:
        """The words of the program."""
        return place.argv(*arguments)


@contextmanager
def screen(place: Place, rows: int, columns: int, *arguments: str) -> Iterator[Screen]:
    made = Screen(place, rows, columns, *arguments)
    try:
        yield made
    finally:
        made.close()
