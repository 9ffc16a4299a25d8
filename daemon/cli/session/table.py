"""`session list` on a terminal: one row for each session and chain run, as wide as the terminal."""

from collections.abc import Sequence
from typing import Final

from runward.config.settings import Settings
from runward.daemon.cli.session.listing import say_that_there_are_more
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.terminal.lists import ROOMY, print_screen
from runward.daemon.cli.terminal.output import note, print_text, printing
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import Column, cut_to
from runward.daemon.store.tables.session_lists import Wanted
from runward.daemon.views.rows import Row, listing
from runward.daemon.views.sessions import NOT_KNOWN
from runward.daemon.views.text import ESTIMATE, age, took

_LONGEST_DIRECTORY: Final = 14


def print_sessions(
    settings: Settings, wanted: Wanted, limit: int, *, has_steps: bool, has_each: bool
) -> None:
    """Print the list, and what else to know below it, on stderr."""
    terminal = terminal_here()
    with store_to_read(settings) as connection:
        listed = listing(
            connection, settings, wanted, limit, terminal.now, has_steps=has_steps, has_each=has_each
        )
    if not listed.rows:
        print_text("no sessions")
    else:
        is_chosen = bool(printing("is_wide") or printing("heads"))
        columns = columns_of(listed.rows, terminal, has_all=is_chosen)
        if "HOST" in (printing("heads") or ()):
            name = "-" if settings.fleet is None else settings.fleet.host
            columns.append(Column("HOST", [name for _ in listed.rows]))
        heads = print_screen(columns if is_chosen else that_say_something(columns))
        if has_estimates(columns, heads):
            note("~: an estimate at list prices, or at those of the settings")
    if any(row.state == "unknown" for row in listed.open):
        note(f"unknown: {NOT_KNOWN}; `runward session show ID` says what to do about it")
    if listed.is_cut:
        say_that_there_are_more(limit)


def columns_of(rows: Sequence[Row], terminal: Terminal, *, has_all: bool = False) -> list[Column]:
    """The columns of the list: those that there is room for, unless it `has_all`."""
    is_roomy = has_all or terminal.columns >= ROOMY
    columns = [
        Column("STATE", [terminal.state(row.state) for row in rows]),
        Column("AGE", [age(row.at, terminal.now) for row in rows], 2),
        Column("TOOK", [took(row.took) for row in rows], 4),
        Column("SESSION", [terminal.id(row.id) for row in rows]),
        Column("FOR", [terminal.text(row.purpose or "-") for row in rows], 1),
        Column("DIRECTORY", [_directory(row, terminal) for row in rows], 5),
        Column("MODEL", [terminal.text(row.model or "-") for row in rows], 8),
        Column("TOKENS", [_tokens(row) for row in rows], 6),
        Column("COST", [row.cost or "-" for row in rows], 7),
        Column("WHAT", [what_of(row, terminal, has_directory=is_roomy) for row in rows]),
    ]
    hidden: tuple[str, ...] = () if is_roomy else _FURTHER
    if not has_all and terminal.columns < _WIDE:
        hidden = (*hidden, "MODEL")
    return [each for each in columns if each.head not in hidden]


_FURTHER: Final = ("TOOK", "DIRECTORY", "MODEL", "TOKENS", "COST")
_WIDE: Final = 140
"""Columns of a terminal from which on the list has models, too."""


def has_estimates(columns: Sequence[Column], heads: Sequence[str]) -> bool:
    """Whether a cost is one, in those of these columns that are shown."""
    costs = next((each.cells for each in columns if each.head == "COST"), ())
    return "COST" in heads and any(cell.startswith(ESTIMATE) for cell in costs)


def that_say_something(columns: Sequence[Column]) -> list[Column]:
    """Without further columns in which nothing is known of any row."""
    return [each for each in columns if each.head not in _FURTHER or any(cell != "-" for cell in each.cells)]


def what_of(row: Row, terminal: Terminal, *, has_directory: bool) -> str:
    """What a row is about, in one line; behind the directory, unless that has a column of its own."""
    name = "" if has_directory or not row.is_within else _last_name(row.directory)
    parts = (row.remark, name, row.what)
    return terminal.text(": ".join(each for each in parts if each))


def _directory(row: Row, terminal: Terminal) -> str:
    return cut_to(terminal.text(_last_name(row.directory) or "-"), _LONGEST_DIRECTORY, terminal.ellipsis)


def _last_name(path: str | None) -> str:
    return "" if path is None else path.rstrip("/").rpartition("/")[2]


def _tokens(row: Row) -> str:
    if not isinstance(row.usage, dict):
        return "-"
    counts = [row.usage["input_tokens"], row.usage["output_tokens"]]
    return f"{sum(each for each in counts if isinstance(each, int)):,}"
