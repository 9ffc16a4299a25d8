"""Runs that were ordered or launched, as commands read them from the store, and those that it doesn't fully know yet."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.root import NATIVE
from runward.handlers.sessions.stored_fields import WATCHED
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


_MOST_OPEN = 500

_BEING_OPENED = (
    "not exists (select 1 from sessions s where s.key = c.session_key) and ("
    " exists (select 1 from jobs j where j.lane = c.session_key and j.state in ('waiting', 'held'))"
    " or exists (select 1 from jobs j where j.state = 'running' and j.lane = c.session_key))"
)
"""Whether the session of a cursor `c` was seen, and a later transaction will open it."""

_OPENED_SOON = (
    "select l.lane from ("
    " select lane from jobs where state in ('waiting', 'held') and lane > ?1 || '/' and lane < ?1 || '0'"
    " union select lane from jobs where state = 'running' and lane > ?1 || '/' and lane < ?1 || '0'"
    ") l where not exists (select 1 from sessions s where s.key = l.lane)"
)
"""The lanes of a root's native sessions that were seen, and that a later transaction will open."""


class OpenRun(NamedTuple):
    """A native run that is recorded as running; `launcher` and `process` are JSON texts, if it names them."""

    session_key: str
    root: str
    directory: str
    launcher: str | None
    process: str | None
    host: str | None


def recorded_since(connection: sqlite3.Connection, root: str, path: str, at: float) -> bool:
    """Whether this root was watched, and the last event was recorded at `at` (Unix seconds) or later."""
    watched = connection.execute("select 1 from roots where name = ? and path = ?", (root, path)).fetchone()
    last = connection.execute("select recorded_at from events order by seq desc limit 1").fetchone()
    return watched is not None and last is not None and last[0] >= at


def unknown_directories(connection: sqlite3.Connection, root: str, names: Sequence[str]) -> list[str]:
    """Those of these directories of a root that were not looked at.

    Each name is looked up, because a root whose runs were moved away may have had far more of them than it has.
    """
    if not names:
        return []
    rows = connection.execute(
        "select n.value from json_each(?2) n where not exists"
        " (select 1 from cursors c where c.key = ?1 || '/' || n.value)",
        (root, json.dumps(names)),
    )
    unknown = {str(name) for (name,) in rows}
    opened = connection.execute(_OPENED_SOON, (f"{NATIVE}:{root}",))
    begin = len(f"{NATIVE}:{root}/")
    unknown |= {lane[begin:] for (lane,) in opened}
    return [name for name in names if name in unknown]


def is_known(connection: sqlite3.Connection, root: str, directory: str) -> bool:
    """Whether this run directory was looked at."""
    row = connection.execute(
        f"select 1 from cursors c where c.key = ? and not ({_BEING_OPENED})",  # noqa: S608 # our own words
        (f"{root}/{directory}",),
    ).fetchone()
    return row is not None


def open_runs(connection: sqlite3.Connection) -> list[OpenRun]:
    """The native runs that are recorded as running, last seen first."""
    # The plus before the row's number: else SQLite would read all cursors in that order, to find the few open ones.
    rows = connection.execute(
        f"select session_key, root, directory, json_extract(state, '{WATCHED['launcher']}'),"  # noqa: S608 # our own words
        f" json_extract(state, '{WATCHED['process']}'), json_extract(state, '{WATCHED['host']}')"
        " from cursors where phase = 'open' and session_key >= ?1 || ':'"
        " and session_key < ?1 || ';' order by +rowid desc limit ?2",
        (NATIVE, _MOST_OPEN),
    )
    return [OpenRun(*row) for row in rows]
