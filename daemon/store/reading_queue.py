"""Queries of commands about the queue: events, requests and their results, jobs."""

import sqlite3
from typing import Final, NamedTuple

from runward.daemon.store.reading_causes import event_recorded

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


LATELY: Final = 20_000
"""Decisions that are looked through, the newest ones, because people look at the result of a request soon."""


class Decided(NamedTuple):
    """A decision about a request, or about what it led to."""

    verdict: str
    summary: str


def event_of(connection: sqlite3.Connection, request: str) -> int | None:
    """The number of a request's event. Its key is the request's name, except for those that say what a person has seen."""
    found = event_recorded(connection, request)
    if found is not None:
        return found
    row = connection.execute(
        "select seq from events where type = 'SessionSeenRequested' and payload ->> 'request' = ?", (request,)
    ).fetchone()
    return None if row is None else int(row[0])


def decisions_on(connection: sqlite3.Connection, request: str) -> list[Decided]:
    """What was decided about a request and about what it led to, in order; only among the newest `LATELY` decisions."""
    # Only what was recorded after the request can follow from it: of the other decisions, no event is looked up.
    rows = connection.execute(
        "select d.verdict, d.summary from decisions d cross join events e on e.seq = d.event"
        " where d.id > (select max(id) from decisions) - ?2"
        " and d.event >= coalesce((select seq from events where key = ?1), 0)"
        " and (e.key = ?1 or e.cause = ?1) order by d.id",
        (request, LATELY),
    )
    return [Decided(*row) for row in rows]


def why_refused(connection: sqlite3.Connection, request: str) -> str | None:
    """Why a request, or what it led to, was refused, once that is decided."""
    found = decisions_on(connection, request)
    return next((each.summary for each in found if each.verdict == "refused"), None)


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
