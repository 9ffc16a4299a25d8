"""Lines that fit a terminal: broken between words under each other, with fewer columns of a table, or cut."""

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

import click

from runward.daemon.cli.terminal.output import align, width

NARROWEST: Final = 20
WIDEST: Final = 120
"""The columns that text is broken to at most: longer lines are hard to read."""

_ENDLESS: Final = 1 << 20
_USUAL: Final = os.terminal_size((80, 24))


def terminal_size(stream: TextIO | None = None) -> os.terminal_size:
    """The size of the terminal that the stream (stdout) is; if it doesn't know its own, the usual one."""
    size = os.get_terminal_size((stream or sys.stdout).fileno())
    return size if size.columns and size.lines else _USUAL


def columns_there() -> int:
    """The columns that a line may have: of a terminal its own; elsewhere a line is never broken."""
    return max(NARROWEST, terminal_size().columns) if sys.stdout.isatty() else _ENDLESS


def room() -> int:
    """The columns to write text in: the available ones, within reason."""
    columns = columns_there()
    return columns if columns == _ENDLESS else min(columns, WIDEST)


def fitting(rows: Sequence[Sequence[str]], spare: Sequence[str], columns: int) -> list[Sequence[str]]:
    """A table, its heads first, without as many of the columns `spare` as must go for its lines to fit, in that order."""
    found = list(rows)
    for head in spare:
        if max(map(width, align(found))) <= columns:
            break
        at = found[0].index(head)
        found = [[*row[:at], *row[at + 1 :]] for row in found]
    return found


def wrapped(text: str, first: str, rest: str, columns: int) -> Iterator[str]:
    """The text in lines of so many columns, the first behind `first`, the others behind `rest`. Nothing is lost."""
    inside = max(columns - width(rest), NARROWEST)
    lines = textwrap.wrap(text, inside, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines or [""]):
        yield f"{rest if number else first}{line}"


def cut(line: str, columns: int) -> str:
    """A line that may be coloured, with no more columns than there are; it loses its colours if it has to be cut."""
    if width(line) <= columns:
        return line
    plain = click.unstyle(line)
    while width(plain) >= columns:
        plain = plain[:-1]
    return f"{plain}…"
