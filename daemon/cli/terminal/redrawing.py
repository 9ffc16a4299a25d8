"""A page on a terminal that is drawn again and again in its place, until Ctrl-C.

The terminal keeps its modes, and the lines above: nothing needs to be undone, however this ends.
"""

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

import click

from runward.daemon.cli.exits import TERMINATED
from runward.daemon.cli.terminal.wrapping import cut, terminal_size

_UP: Final = "\x1b[{}F"
_REST_OF_LINE: Final = "\x1b[K"
_BELOW: Final = "\x1b[J"
_FROM_THE_TOP: Final = "\x1b[2J\x1b[H"
_FEWEST_LINES: Final = 2


def redraw(page: Callable[[], list[str]], every: float) -> NoReturn:
    """Draw the page at this interval in seconds, and at once when the terminal's size changes.

    It ends with `KeyboardInterrupt`, or `SystemExit` at SIGTERM.
    """
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
        with suppress(BlockingIOError):
            os.read(changed, 4096)


def fitted(lines: Sequence[str], columns: int, rows: int) -> list[str]:
    """The lines that a terminal of this size can show with the cursor below them; what is left out is counted."""
    most = max(rows - 1, _FEWEST_LINES)
    kept = (
        list(lines)
        if len(lines) <= most
        else [*lines[: most - 1], f"… and {len(lines) - most + 1} more lines"]
    )
    return [cut(line, columns) for line in kept]


def _wake(number: int, frame: FrameType | None) -> None:
    """Being called is enough: the wait ends."""


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
