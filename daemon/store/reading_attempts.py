"""The attempts of a session, as commands read them from the store, for a bundle that is made on demand."""

import sqlite3

from runward.handlers.bundle.stretches import BeganAndEnded


def attempts_of(connection: sqlite3.Connection, key: str) -> list[BeganAndEnded]:
    """The attempts of a session, in order."""
    rows = connection.execute(
        "select a.attempt, a.started_at, a.ended_at, e.hash from attempts a"
        " left join events e on e.key = a.session_key || '#' || a.attempt || '/started'"
        " where a.session_key = ? order by a.attempt",
        (key,),
    )
    return [BeganAndEnded(*row) for row in rows]


def finished_hash(connection: sqlite3.Connection, key: str, attempt: int) -> str | None:
    """The hash of the event of an attempt's verdict; None if its record is pruned."""
    row = connection.execute(
        "select hash from events where key = ? || '#' || ? || '/finished'", (key, attempt)
    ).fetchone()
    return None if row is None else str(row[0])
