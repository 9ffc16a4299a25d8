"""`session tail`: a session's journal on the terminal, once or as it grows."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.session.journal_text import text_of, value_of
from runward.daemon.cli.terminal import following
from runward.daemon.cli.terminal.output import fail, note, print_json, print_json_line
from runward.daemon.rundir.tailing import Line, NotRegular, Tail, ends_with, open_in_run
from runward.daemon.store import reading, reading_sessions
from runward.daemon.views.bundles import journal_place
from runward.handlers.foreign_json import NotJson

_JOURNAL: Final = "events.jsonl"
_PERIOD: Final = 0.5
"""Seconds between two questions to the store whether the session is over."""


def print_journal(
    state: str, row: reading_sessions.SessionRow, follow: bool, count: int | None, as_json: bool
) -> None:
    """Print the journal of a session; exits 3 if there is none."""
    place = journal_place(state, row)
    if not follow:
        lines = following.once(_open(place, row.session_id), count)
        if as_json:
            print_json(list(_values(lines)))
            return
    else:
        is_over = _until_over(state, row)
        lines = following.follow(_wait_for(place, row.session_id, is_over), count, is_over)
        if as_json:
            for value in _values(lines):
                print_json_line(value)
            return
    for line in lines:
        click.echo(text_of(line))


def _open(place: str, session_id: str) -> Tail:
    try:
        return Tail(lambda: open_in_run(place, _JOURNAL))
    except NotRegular as error:
        fail(str(error), NOT_FOUND)
    except OSError as error:
        why = error.strerror or str(error)
        fail(f"{place}/{_JOURNAL} can't be read: {why}; `runward why {session_id}` shows more", NOT_FOUND)


def _wait_for(place: str, session_id: str, is_over: Callable[[], bool]) -> Tail:
    """The journal as soon as it exists; a session that is over won't get one now."""
    while not is_over():
        try:
            return Tail(lambda: open_in_run(place, _JOURNAL))
        except FileNotFoundError:
            time.sleep(_PERIOD)
        except (OSError, NotRegular):
            break
    return _open(place, session_id)


def _until_over(state: str, row: reading_sessions.SessionRow) -> Callable[[], bool]:
    """Whether the session is over and its journal has all its lines; asks the store twice a second."""
    asked = float("-inf")

    def is_over() -> bool:
        nonlocal asked
        if time.monotonic() - asked < _PERIOD:
            return False
        asked = time.monotonic()
        with reading.reading(state) as connection:
            now = reading_sessions.session(connection, row.key)
            if now is not None and now.status == "running":
                return False
            owed = reading_sessions.owed(connection, row.key, _JOURNAL)
        return not owed or ends_with(journal_place(state, row), _JOURNAL, owed[-1])

    return is_over


def _values(lines: Iterable[Line]) -> Iterator[JsonValue]:
    """The values of the lines; a line that has none is reported on stderr."""
    for line in lines:
        value = value_of(line)
        if isinstance(value, NotJson):
            note(f"line {line.number} of {_JOURNAL} is left out: {value.message}")
        else:
            yield value
