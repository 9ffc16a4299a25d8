"""The queue as commands read it.

Each condition on a job's state names the state of a partial index, because there are many done jobs.
"""

import sqlite3
from typing import NamedTuple


class QueueFigures(NamedTuple):
    """How many jobs wait, run and are held; `oldest_waiting` is since when the oldest could have been done.

    A job that is due later, such as a schedule's, has not been waiting; one that was refused has.
    """

    waiting: int
    running: int
    held: int
    oldest_waiting: float | None


class NextDue(NamedTuple):
    """The job that is due next, and when (Unix seconds)."""

    at: float
    handler: str
    lane: str


def queue_figures(connection: sqlite3.Connection, now: float) -> QueueFigures:
    """The figures of the queue at this time (Unix seconds)."""
    rows = connection.execute(
        "select state, count(*) from jobs where state in ('waiting', 'held') group by state"
        " union all select 'running', count(*) from jobs where state = 'running'"
    )
    counts: dict[str, int] = dict(rows.fetchall())
    (oldest,) = connection.execute(
        "select min(iif(j.error is null, max(e.recorded_at, j.run_after), e.recorded_at))"
        " from jobs j join events e on e.seq = j.event"
        " where j.state in ('waiting', 'held') and j.state = 'waiting'"
        " and (j.run_after <= ? or j.error is not null)",
        (now,),
    ).fetchone()
    return QueueFigures(counts.get("waiting", 0), counts["running"], counts.get("held", 0), oldest)


def held_by_reason(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Why jobs are held, with the number for each reason, most common first."""
    return connection.execute(
        "select coalesce(error, ''), count(*) from jobs where state in ('waiting', 'held')"
        " and state = 'held' group by 1 order by 2 desc, 1"
    ).fetchall()


def next_due(connection: sqlite3.Connection) -> NextDue | None:
    """The job at the head of its lane that will be due next."""
    row = connection.execute(
        "select run_after, handler, lane from jobs j where state in ('waiting', 'held')"
        " and state = 'waiting' and run_after > 0 and not exists (select 1 from jobs b"
        "  where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held'))"
        " and not exists (select 1 from jobs b where b.state = 'running' and b.lane = j.lane and +b.id < j.id)"
        " order by run_after, id limit 1"
    ).fetchone()
    return None if row is None else NextDue(*row)
