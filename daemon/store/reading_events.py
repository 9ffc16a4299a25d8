"""What has changed in the store since a position: the lanes of new events, and of jobs that moved."""

import sqlite3
from typing import Final

MOST_EVENTS: Final = 10_000
MOST_JOBS: Final = 1_000
"""Events and open jobs that are read at once. With more of them it is not known what changed."""

SOON_S: Final = 1.0
"""Seconds within which a waiting job counts as open: it may be done before the next look."""

_NEWEST: Final = "select max(coalesce((select max(seq) from events), 0), coalesce((select max(last) from absent_events), 0))"
_LANES: Final = "select lane from events where seq > ?1 union select lane from jobs where id >= 32 * (?1 + 1)"
_OPEN: Final = (
    "select id, lane, state, tries from jobs where state = 'running'"
    " union all select * from (select id, lane, state, tries from jobs where state in ('waiting', 'held')"
    " and run_after <= ? order by run_after limit ?)"
)


def newest_event(connection: sqlite3.Connection) -> int:
    """The number of the newest event, whether or not its row is still there. 0 if there was none."""
    (seq,) = connection.execute(_NEWEST).fetchone()
    assert isinstance(seq, int)
    return seq


def lanes_after(connection: sqlite3.Connection, seq: int) -> frozenset[str] | None:
    """The lanes of the events after this one, and those of their jobs.

    None if it is not known: the store is older than that, events in between were pruned or packed, or there are too many.
    """
    if not 0 <= newest_event(connection) - seq <= MOST_EVENTS:
        return None
    if (
        connection.execute("select 1 from absent_events where last > ? limit 1", (seq,)).fetchone()
        is not None
    ):
        return None
    return frozenset(str(lane) for (lane,) in connection.execute(_LANES, (seq,)))


def open_jobs(connection: sqlite3.Connection, now: float) -> dict[int, tuple[str, str, int]] | None:
    """The jobs that run, are held, or are due soon, by number: lane, state, tries. None if there are too many."""
    rows = connection.execute(_OPEN, (now + SOON_S, MOST_JOBS + 1)).fetchall()
    return {job: (lane, state, tries) for job, lane, state, tries in rows} if len(rows) <= MOST_JOBS else None
