"""Lists as screens: as wide as the terminal, with the columns that were asked for, in the pager if they are long."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from runward.daemon.cli.terminal.output import at_home, print_lines, printing
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import Column, chosen, table_lines, those_that_fit
from runward.daemon.views.text import short_id

ROOMY: Final = 100
"""Columns of a terminal from which on a list says more than what matters."""

_KEPT: Final = ("STATE", "STATUS", "HEALTH", "PASSED", "RESULT", "NEXT")
"""Heads of columns that are left out last: how something is, and what to do, matter more than what else there is to say of it."""


def print_columns(cells: Mapping[str, Sequence[str]]) -> None:
    """Print a table of safe cells, by their heads. What is left out for want of room is what stands at the right."""
    terminal, last = terminal_here(), len(cells) - 1
    columns = [
        Column(head, [_shown(each, terminal) for each in column], _order(head, number, last))
        for number, (head, column) in enumerate(cells.items())
    ]
    print_screen(columns)


def print_screen(columns: Sequence[Column]) -> list[str]:
    """Print a table as the options of the command say; returns the heads that there was room for."""
    terminal = terminal_here()
    shown = _asked_for(columns, terminal.columns)
    is_wide = bool(printing("is_wide"))
    print_lines(table_lines(shown, terminal.columns, terminal.ellipsis, is_wide=is_wide))
    return [each.head.strip() for each in shown]


def lines_asked_for(columns: Sequence[Column], room: int, ellipsis: str) -> list[str]:
    """The lines of a table as the options of the command say."""
    return table_lines(_asked_for(columns, room), room, ellipsis, is_wide=bool(printing("is_wide")))


def _asked_for(columns: Sequence[Column], room: int) -> list[Column]:
    shown = chosen(columns, printing("heads") or ())
    return [*shown] if printing("is_wide") else those_that_fit(shown, room)


def _order(head: str, number: int, last: int) -> int:
    """When a column is left out; the first and the last one never."""
    return 0 if number in (0, last) else 1 if head in _KEPT else number + 1


def _shown(cell: str, terminal: Terminal) -> str:
    """A cell that the terminal can show; only one that has to be changed for that loses its colour."""
    # A program that asks for columns gets whole ids and paths.
    shown = cell if terminal.is_pipe else short_id(at_home(cell), terminal.ellipsis)
    return shown if terminal.has_utf8 or shown.isascii() else terminal.text(click.unstyle(shown))
