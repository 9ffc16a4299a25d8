"""Lines that fit a terminal: broken between words under each other, or cut."""

import os
import sys
import textwrap
from collections.abc import Iterator
from typing import Final, TextIO

import click

from runward.daemon.cli.output import width

NARROWEST: Final = 20
WIDEST: Final = 120
"""The columns that text is broken to at most: longer lines are hard to read."""

_ENDLESS: Final = 1 << 20
_USUAL: Final = os.terminal_size((80, 24))


def terminal_size(stream: TextIO | None = None) -> os.terminal_size:
    """That of the terminal that the stream (stdout) is; of one that doesn't know its own, the usual one."""
    size = os.get_terminal_size((stream or sys.stdout).fileno())
    return size if size.columns and size.lines else _USUAL


def room() -> int:
    """The columns to write in: of a terminal its own, within reason; elsewhere a line is never broken."""
    if not sys.stdout.isatty():
        return _ENDLESS
    return max(NARROWEST, min(terminal_size().columns, WIDEST))


def wrapped(text: str, first: str, rest: str, columns: int) -> Iterator[str]:
    """The text in lines of so many columns, the first behind `first`, the others behind `rest`. Nothing is lost."""
    inside = max(columns - width(rest), NARROWEST)
    lines = textwrap.wrap(text, inside, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines or [""]):
        yield f"{rest if number else first}{line}"


def cut(line: str, columns: int) -> str:
    """A line that may be coloured, with no more columns than there are; its colours go where it has to be cut."""
    if width(line) <= columns:
        return line
    plain = click.unstyle(line)
    while width(plain) >= columns:
        plain = plain[:-1]
    return f"{plain}…"
