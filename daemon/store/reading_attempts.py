"""The attempts of a session, as commands read them from the store, for a bundle that is made on demand."""

import sqlite3
from typing import Final

from runward.handlers.calls import BeganAndEnded

ATTEMPTS: Final = (
    "select a.session_key, a.attempt, a.started_at, a.ended_at, e.hash, e.payload ->> 'log_before',"
    " case when n.key is not null then n.payload ->> 'log_before'"
    "  when c.phase <> 'over' or not json_valid(c.state) then null"
    "  when s.layout = 'native' then case when c.state ->> '$[2]' = a.attempt then c.state ->> '$[17][1]' end"
    "  when c.state ->> '$[2][1]' = a.attempt then c.state ->> '$[2][20]' end"
    " from attempts a join sessions s on s.key = a.session_key"
    " left join events e on e.key = a.session_key || '#' || a.attempt || '/started'"
    " left join events n on n.key = a.session_key || '#' || (a.attempt + 1) || '/started'"
    " left join cursors c on c.key = case s.layout when 'native' then substr(a.session_key, 8) else a.session_key end"
)
"""Attempts, each with how much of the session's log comes before it, and before what comes after it. The next
attempt says that, or the last look (`Watched.traced`, `Followed.lines`)."""


def attempts_of(connection: sqlite3.Connection, key: str) -> list[BeganAndEnded]:
    """The attempts of a session, in order."""
    rows = connection.execute(f"{ATTEMPTS} where a.session_key = ? order by a.attempt", (key,))
    return [BeganAndEnded(*row) for _, *row in rows]


def finished_hash(connection: sqlite3.Connection, key: str, attempt: int) -> str | None:
    """The hash of the event of an attempt's verdict; None if its record is pruned."""
    row = connection.execute(
        "select hash from events where key = ? || '#' || ? || '/finished'", (key, attempt)
    ).fetchone()
    return None if row is None else str(row[0])
