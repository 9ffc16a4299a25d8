"""Queries of commands about sessions that ended badly and that nobody has seen yet."""

import sqlite3
from typing import Final, NamedTuple

from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_sessions import SessionRow

LATELY: Final = 86_400.0
"""Seconds after its end for which a failure is shown."""


class Failures(NamedTuple):
    """How many recently failed sessions nobody has seen, and the newest of them."""

    total: int
    newest: list[SessionRow]


def unseen_failures(connection: sqlite3.Connection, now: float, limit: int | None = None) -> Failures:
    """Those of the last day, newest end first; at most `limit`. The total is a sum of counts that the store keeps."""
    since = now - LATELY
    (total,) = connection.execute(
        "select (select count(*) from sessions where unseen_at >= ?1 and unseen_at < 60 * (?2 + 1))"
        " + (select coalesce(sum(sessions), 0) from unseen_counts where minute > ?2)",
        (since, int(since // 60)),
    ).fetchone()
    if not total:
        return Failures(0, [])
    keys = connection.execute(
        "select key from sessions where unseen_at >= ? order by unseen_at desc, key limit ?",
        (since, -1 if limit is None else limit),
    )
    rows = reading_sessions.sessions_with_keys(connection, [key for (key,) in keys])
    return Failures(total, sorted(rows, key=lambda row: (-(row.finished_at or 0.0), row.key)))


def is_unseen_failure(connection: sqlite3.Connection, key: str, now: float) -> bool:
    """Whether this session is one of them."""
    found = connection.execute(
        "select 1 from sessions where key = ? and unseen_at >= ?", (key, now - LATELY)
    ).fetchone()
    return found is not None


def is_seen(connection: sqlite3.Connection, key: str, attempt: int) -> bool:
    """Whether somebody has seen how this attempt ended."""
    seen = connection.execute("select 1 from events where key = ?", (f"{key}#{attempt}/seen",)).fetchone()
    return seen is not None
