"""The progress of a long reading, on the terminal of anyone who waits for it, and nowhere else."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from runward.daemon.views.text import size

_FIRST_AFTER: Final = 1.0
_EVERY: Final = 0.2
_ERASE: Final = "\r\x1b[K"


class Progress:
    """Counts what is read. From the first second on it shows the progress in place, if it `is_shown`."""

    def __init__(self, is_shown: bool) -> None:
        self._next = time.monotonic() + _FIRST_AFTER if is_shown else float("inf")
        self._sessions = 0
        self._bytes = 0
        self._has_shown = False

    def session(self) -> None:
        """Another session was read."""
        self._sessions += 1
        self._tell()

    def read(self, count: int) -> None:
        """This many more bytes were read."""
        self._bytes += count
        self._tell()

    def erase(self) -> None:
        """Leave the terminal as it was."""
        if self._has_shown:
            click.echo(_ERASE, nl=False, err=True)

    def _tell(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            click.echo(f"{_ERASE}{self._sessions:,} sessions, {size(self._bytes)} read", nl=False, err=True)
            self._next, self._has_shown = now + _EVERY, True


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress while the block runs, erased at its end."""
    shown = Progress(sys.stderr.isatty())
    try:
        yield shown
    finally:
        shown.erase()
