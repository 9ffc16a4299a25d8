"""Ordered runs, as commands read them from the store: the result of a request, and who started a session."""

import sqlite3
from typing import Final, NamedTuple

from runward.handlers.subjects import START, of_start


class StartRow(NamedTuple):
    """A run that was ordered.

    `state` is `owed`, `begun` or `failed`; `ended_at` is when it was settled (Unix seconds).
    """

    key: str
    event: int
    session_key: str
    name: str
    directory: str
    state: str
    why: str | None
    ended_at: float | None


_COLUMNS: Final = "select key, event, session_key, name, directory, state, why, ended_at from starts"


def start_of(connection: sqlite3.Connection, key: str) -> StartRow | None:
    """What was ordered under `key`, a request's name."""
    row = connection.execute(f"{_COLUMNS} where key = ?", (key,)).fetchone()
    return None if row is None else StartRow(*row)


def start_called(connection: sqlite3.Connection, name: str) -> StartRow | None:
    """The order for the run called `name`; None if it was refused or never requested."""
    row = connection.execute(f"{_COLUMNS} where name = ? order by event desc", (name,)).fetchone()
    return None if row is None else StartRow(*row)


def start_of_session(connection: sqlite3.Connection, session_key: str) -> StartRow | None:
    """The order that started a session, if there was one."""
    row = connection.execute(f"{_COLUMNS} where session_key = ? order by event", (session_key,)).fetchone()
    return None if row is None else StartRow(*row)


def runs_called(connection: sqlite3.Connection, text: str, limit: int) -> list[str]:
    """Names of requested runs, including refused ones: the one called `text`, or those that begin with it."""
    wanted = of_start(text)
    for query in (_CALLED, _BEGINNING):
        rows = connection.execute(query, (wanted, limit)).fetchall()
        if rows:
            return [str(subject).removeprefix(START) for (subject,) in rows]
    return []


_CALLED: Final = "select distinct subject from decisions where subject = ?1 limit ?2"
_BEGINNING: Final = (
    "select distinct subject from decisions where subject >= ?1 and substr(subject, 1, length(?1)) = ?1"
    " order by subject desc limit ?2"
)
