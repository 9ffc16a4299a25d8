"""A terminal with a command that stays on it, read back as a person sees it."""

import os
import select
import shlex
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyte
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import Screen, StartedScreen
from tests.waiting import PATIENCE_S

_TAKES: Final = b"\x1b[?1049h"
_GIVES_BACK: Final = b"\x1b[?1049l"


class LiveScreen(Screen):
    """A terminal whose content is read back with pyte."""

    def __init__(self, place: Place, rows: int, columns: int, *arguments: str, **environment: str) -> None:
        self.raw = b""
        self._seen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._seen)
        super().__init__(place, rows, columns, *arguments, **{"LANG": "C.UTF-8", **environment})

    @property
    def lines(self) -> list[str]:
        """What is on the terminal now, without blanks at the ends of lines."""
        return [line.rstrip() for line in self._seen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def is_as_before(self) -> bool:
        """Whether the terminal is as it was before the command: `stty -g`, the cursor, the screen."""
        modes = termios.tcgetattr(self.master) == self.modes
        return modes and self.has_cursor and self.raw.count(_TAKES) == self.raw.count(_GIVES_BACK)

    @property
    def has_cursor(self) -> bool:
        return not self._seen.cursor.hidden

    def shows(self, what: str | Callable[[list[str]], bool]) -> list[str]:
        """Wait until this is on the terminal; its lines then."""
        is_so = (lambda lines: what in "\n".join(lines)) if isinstance(what, str) else what
        give_up = time.monotonic() + PATIENCE_S
        while not is_so(self.lines):
            assert time.monotonic() < give_up, f"{what} is not there:\n{self.text}"
            self.read(1.0)
        return self.lines

    def read(self, patience: float) -> bytes:
        """What is written within so many seconds, or nothing."""
        if not select.select([self.master], [], [], patience)[0]:
            return b""
        try:
            content = os.read(self.master, 65536)
        except OSError:
            return b""  # nobody has the terminal open any more
        self.raw += content
        self._stream.feed(content)
        return content

    def resized(self, rows: int, columns: int) -> None:
        """As when its window is drawn larger or smaller."""
        self._seen.resize(rows, columns)
        self.resize(rows, columns)

    def ended(self) -> int:
        """The exit code, after everything was read."""
        while self.read(PATIENCE_S):
            pass
        return self.end()

    def lost(self) -> int:
        """Take the terminal away, as when a connection is lost; the exit code."""
        os.close(self.master)
        self.is_open = False
        return self.waited()


class Shell(LiveScreen, StartedScreen):
    """A shell with job control, in which the command is a job; `{}` in its script is the command."""

    def argv(self, place: Place, *arguments: str) -> list[str]:
        script, *words = arguments
        return ["/bin/sh", "-mc", script.format(shlex.join(place.argv(*words)))]


@contextmanager
def live_screen(
    place: Place, rows: int, columns: int, *arguments: str, **environment: str
) -> Iterator[LiveScreen]:
    made = LiveScreen(place, rows, columns, *arguments, **environment)
    try:
        yield made
    finally:
        made.close()
