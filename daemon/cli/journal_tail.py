"""`session tail`: a session's journal on the terminal, once or as it grows."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.following import follow as follow_lines
from runward.daemon.cli.following import newest
from runward.daemon.cli.journal_text import text_of, value_of
from runward.daemon.cli.output import fail, note, print_json, print_json_line
from runward.daemon.rundir.tailing import Line, NotRegular, Tail, open_in_run
from runward.daemon.store import reading
from runward.handlers.layouts.foreign_json import NotJson

_JOURNAL: Final = "events.jsonl"
_ASK_PERIOD: Final = 0.5
"""Seconds between two questions to the store whether the session is over."""
_BECOMING: Final = 0.2


def print_journal(state: str, row: reading.SessionRow, follow: bool, count: int | None, as_json: bool) -> None:
    """Print the journal; exits 3 where there is none."""
    is_over = _Over(state, row.key)
    tail = _open(row, is_over if follow else None)
    before = list(newest(tail.lines(), count)) if count is not None else tail.lines()
    if not follow:
        last = tail.unfinished() if count is None else None
        _print_once(_with(before, tail) if last is None else before, as_json)
        return
    for line in before:
        _print_line(line, as_json)
    for line in follow_lines(tail, is_over):
        _print_line(line, as_json)
