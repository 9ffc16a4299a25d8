"""An agent with a person before it: a program in a terminal, and what the person types."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.waiting import PATIENCE_S, wait_for

ENTER: Final = b"\r"
ESCAPE: Final = b"\x1b"

_AGAIN_S: Final = 3.0
"""Seconds after which a key is pressed again that had no effect: the program may not have listened yet."""


@dataclass(slots=True)
class Terminal:
    """A terminal in which a program runs."""

    process: "subprocess.Popen[bytes]"
    _keys: int
    _screen: bytearray = field(default_factory=bytearray)

    def said(self) -> str:
        """What was written to the screen, with the terminal's own commands."""
        return bytes(self._screen).decode(errors="replace")

    def shows(self, text: str) -> bool:
        return text in self.said()

    def type(self, text: str, taken: Callable[[], object], what: str) -> None:
        """Type a line, and press Enter until it was taken."""
        os.write(self._keys, text.encode())
        self.press(ENTER, taken, what)

    def press(self, key: bytes, taken: Callable[[], object], what: str) -> None:
        """Press a key, again and again until `taken` holds."""
        until = time.monotonic() + PATIENCE_S
        pressed_at = -_AGAIN_S
        while not taken():
            assert time.monotonic() < until, f"{what} did not come; the screen has:\n{self.said()[-2000:]}"
            if time.monotonic() - pressed_at >= _AGAIN_S:
                os.write(self._keys, key)
                pressed_at = time.monotonic()
            time.sleep(0.05)

    def read(self) -> None:
        """Take in what is written to the screen, to its end."""
        while True:
            try:
                piece = os.read(self._keys, 1 << 16)
            except OSError:  # nobody has the terminal any more
                return
            if not piece:
                return
            self._screen += piece


@contextmanager
def terminal(command: Sequence[str], directory: Path, variables: dict[str, str]) -> Iterator[Terminal]:
    """A program in a terminal of its own, which is ended afterwards."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", **variables},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    shown = Terminal(process, ours)
    reader = threading.Thread(target=shown.read)
    reader.start()
    try:
        yield shown
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_for(lambda: not reader.is_alive(), "the end of the terminal's reader")
        os.close(ours)
