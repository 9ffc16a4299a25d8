"""What goes on while a person looks: the lines of a growing file, a page that is drawn again in its place, the progress of a long reading."""

import io
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from types import FrameType
from typing import Final, NoReturn, TextIO

import click

from runward.daemon.cli.exits import TERMINATED
from runward.daemon.cli.terminal.output import safe, terminal_size
from runward.daemon.cli.terminal.tables import cut_to
from runward.daemon.rundir.growing import Line, Tail
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.views.text import size

PERIOD: Final = 0.2
"""Seconds between two looks at a file: what a person calls at once."""


def once(tail: Tail, count: int | None) -> Iterator[Line]:
    """The current lines, including an unfinished last one; only the last `count` of them, unless None."""
    yield from _newest(_to_the_end(tail), count)


def follow(tail: Tail, count: int | None, is_over: Callable[[], bool]) -> Iterator[Line]:
    """The lines as `once`, and then those that are added, until `is_over`."""
    yield from _newest(tail.lines(), count)
    while not is_over():
        yield from tail.lines()
        # A file that was replaced has a successor, whose first lines are there already: that is read without a pause.
        if not tail.moved_on():
            time.sleep(PERIOD)
    # Once more after the end: what was written between the last look and the end is read here.
    yield from _to_the_end(tail)


def _to_the_end(tail: Tail) -> Iterator[Line]:
    yield from tail.lines()
    last = tail.unfinished()
    if last is not None:
        yield last


def _newest(lines: Iterator[Line], count: int | None) -> Iterator[Line]:
    return lines if count is None else iter(deque(lines, maxlen=count))


_UP: Final = "\x1b[{}F"
_REST_OF_LINE: Final = "\x1b[K"
_BELOW: Final = "\x1b[J"
_FROM_THE_TOP: Final = "\x1b[2J\x1b[H"
_FEWEST_LINES: Final = 2


def redraw(page: Callable[[], list[str]], every: float) -> NoReturn:
    """Draw the page at this interval in seconds, and at once when the terminal's size changes.

    It ends with `KeyboardInterrupt`, or `SystemExit` at SIGTERM.
    """
    # Python restarts a system call after a signal, so a changed size would wait for the next drawing without the pipe.
    changed, changes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(changes, warn_on_full_buffer=False)
    signal.signal(signal.SIGWINCH, _wake)
    signal.signal(signal.SIGTERM, _end)
    size, drawn = terminal_size(), 0
    while True:
        lines = page()
        now = terminal_size()
        back = _UP.format(drawn) if drawn else ""
        if now != size:
            size, back = now, _FROM_THE_TOP  # how many lines the old page takes now is not known
        shown = fitted(lines, now.columns, now.lines)
        click.echo(back + "".join(f"{line}{_REST_OF_LINE}\n" for line in shown) + _BELOW, nl=False)
        drawn = len(shown)
        select.select([changed], [], [], every)
        # Emptied, because a signal that came twice would otherwise end the next wait at once.
        with suppress(BlockingIOError):
            os.read(changed, 4096)


def redraw_output(command: Callable[[], object], every: float, *, is_json: bool) -> NoReturn:
    """Call the command at this interval, and draw what it prints over what it printed before. It ends as `redraw` does."""
    if is_json:
        raise click.UsageError("--watch can't be combined with --json")
    if not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal; programs can call it with --json repeatedly")
    redraw(lambda: _printed(command), every)


class Page(io.StringIO):
    """What is printed for a page, as if to the terminal itself."""

    encoding = "utf-8"

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal
        self.encoding = terminal.encoding

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()


def _printed(command: Callable[[], object]) -> list[str]:
    """The lines that the command prints, also those for people on stderr; its exit code is for a call without a watch."""
    page = Page(sys.stdout)
    with redirect_stdout(page), redirect_stderr(page):
        try:
            command()
        except SystemExit:
            pass  # what went wrong is on the page, and the next one may be better
        except StoreUnreadable as error:
            # A restore replaces the store while this goes on.
            return [safe(str(error))]
    return page.getvalue().splitlines()


def fitted(lines: Sequence[str], columns: int, rows: int) -> list[str]:
    """The lines that a terminal of this size can show with the cursor below them; what is left out is counted."""
    most = max(rows - 1, _FEWEST_LINES)
    kept = (
        list(lines)
        if len(lines) <= most
        else [*lines[: most - 1], f"… and {len(lines) - most + 1} more lines"]
    )
    return [cut_to(line, columns, "…") for line in kept]


def _wake(number: int, frame: FrameType | None) -> None:
    """Being called is enough: the wait ends."""


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(TERMINATED)


_FIRST_AFTER: Final = 1.0
_EVERY: Final = 0.2
_ERASE: Final = "\r\x1b[K"


def write_in_place(line: str) -> None:
    """Write a line to stderr over the one that was written so before; an empty one leaves the terminal as it was."""
    click.echo(f"{_ERASE}{line}", nl=False, err=True)


class InPlace:
    """A line on stderr that changes while a long work goes on, from some seconds after its begin; only on a terminal."""

    def __init__(self, first_after: float) -> None:
        self._next = time.monotonic() + first_after if sys.stderr.isatty() else float("inf")
        self._has_shown = False

    def tell(self, line: Callable[[], str], *, is_last: bool = False) -> None:
        """Show what is done so far, unless that was shown a moment ago. The last line takes the place of any other."""
        now = time.monotonic()
        if now >= self._next or (is_last and self._has_shown):
            write_in_place(line())
            self._next, self._has_shown = now + _EVERY, True

    def erase(self) -> None:
        """Leave the terminal as it was."""
        if self._has_shown:
            write_in_place("")


class Progress(InPlace):
    """Counts what is read, and shows it."""

    def __init__(self) -> None:
        super().__init__(_FIRST_AFTER)
        self._sessions = 0
        self._bytes = 0

    def session(self) -> None:
        """Another session was read."""
        self._sessions += 1
        self.tell(self._line)

    def read(self, count: int) -> None:
        """This many more bytes were read."""
        self._bytes += count
        self.tell(self._line)

    def _line(self) -> str:
        return f"{self._sessions:,} sessions, {size(self._bytes)} read"


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress while the block runs, erased at its end."""
    shown = Progress()
    try:
        yield shown
    finally:
        shown.erase()
