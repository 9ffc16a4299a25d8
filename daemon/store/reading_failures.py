"""Queries of commands about sessions that ended badly and that nobody has seen yet."""

import sqlite3
from typing import Final, NamedTuple

from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_sessions import SessionRow

LATELY: Final = 86_400.0
"""Seconds after its end for which a failure is shown."""

_UNSEEN: Final = (
    " from sessions s where s.packed = 0 and s.finished_at >= ?1 and s.status in ('failed', 'timed_out', 'aborted')"
    " and s.reason_code <> 'run.aborted.user' and s.origin = 'live'"
    " and not exists (select 1 from events e where e.key = s.key || '#' || s.attempt || '/seen')"
)
"""The failures since a moment. What is younger than a day is never packed."""


class Failures(NamedTuple):
    """How many recently failed sessions nobody has seen, and the newest of them."""

    total: int
    newest: list[SessionRow]


def unseen_failures(connection: sqlite3.Connection, now: float, limit: int | None = None) -> Failures:
    """Those of the last day, newest end first; at most `limit`."""
    (total,) = connection.execute(f"select count(*) {_UNSEEN}", (now - LATELY,)).fetchone()  # our own words
    if not total:
        return Failures(0, [])
    keys = connection.execute(
        f"select s.key {_UNSEEN} order by s.finished_at desc, s.key limit ?2",  # our own words
        (now - LATELY, -1 if limit is None else limit),
    )
    rows = reading_sessions.sessions_with_keys(connection, [key for (key,) in keys])
    return Failures(total, sorted(rows, key=lambda row: (-(row.finished_at or 0.0), row.key)))


def is_unseen_failure(connection: sqlite3.Connection, key: str, now: float) -> bool:
    """Whether this session is one of them."""
    found = connection.execute(
        f"select 1 {_UNSEEN} and s.key = ?2", (now - LATELY, key)
    ).fetchone()  # our own words
    return found is not None


def is_seen(connection: sqlite3.Connection, key: str, attempt: int) -> bool:
    """Whether somebody has seen how this attempt ended."""
    seen = connection.execute("select 1 from events where key = ?", (f"{key}#{attempt}/seen",)).fetchone()
    return seen is not None
