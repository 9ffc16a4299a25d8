"""The store as `runward why` and `runward queue` read it: events, decisions and jobs, in their order.

The keys of a session's events begin with the session's own, so they are found by the index on keys. A plus before a
column makes SQLite read the few open jobs instead of scanning all jobs by number.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

from runward.daemon.store.values import listed


class EventRow(NamedTuple):
    """A recorded event. `at` is the fact's own time, `payload` JSON text; Unix seconds."""

    seq: int
    key: str
    type: str
    lane: str
    at: float
    recorded_at: float
    cause: str | None
    payload: str
    hash: str


class DecisionRow(NamedTuple):
    """What a handler decided or refused about a subject; `known` is JSON text."""

    event: int
    handler: str
    subject: str
    at: float
    verdict: str
    summary: str
    known: str | None


class JobRow(NamedTuple):
    """A job with its event's key and type. `blocked_by` is the earlier job that stops its lane."""

    id: int
    event: int
    event_key: str
    event_type: str
    recorded_at: float
    handler: str
    lane: str
    state: str
    run_after: float
    tries: int
    error: str | None
    updated_at: float
    blocked_by: int | None


class CancellationRow(NamedTuple):
    """An order to end a run. `told` says whether its process got the order.

    It is None while the order is not carried out (`at` is None then), and if that can't be known.
    """

    event: int
    attempt: int
    told: bool | None
    outcome: str | None
    at: float | None


class LineRow(NamedTuple):
    """Lines for a journal that an event led to: done if they are at `offset`, else why not."""

    event: int
    name: str
    state: str
    offset: int | None
    length: int
    why: str | None


def session_events(connection: sqlite3.Connection, key: str) -> list[EventRow]:
    """The events of a session, the requests about it, and their causes elsewhere, first cause first."""
    rows = connection.execute(
        "select seq from events where key > ?1 || '#' and key < ?1 || '$' and lane = ?1"
        " union select event from decisions where subject = ?1"
        " union select event from jobs where lane = ?1 and state in ('waiting', 'held')",
        (key,),
    )
    return events_with_causes(connection, [seq for (seq,) in rows])


def events_with_causes(connection: sqlite3.Connection, numbers: Iterable[int]) -> list[EventRow]:
    """These events and their causes, first cause first."""
    rows = connection.execute(
        "with recursive chain (seq, cause) as ("
        " select seq, cause from events where seq in (select value from json_each(?))"
        " union select e.seq, e.cause from chain c join events e on e.key = c.cause)"
        " select seq, key, type, lane, at, recorded_at, cause, payload, hash"
        " from events where seq in (select seq from chain) order by seq",
        (listed(numbers),),
    )
    return [EventRow(*row) for row in rows]


def event_recorded(connection: sqlite3.Connection, key: str) -> int | None:
    """The number of the event with this key."""
    row = connection.execute("select seq from events where key = ?", (key,)).fetchone()
    return None if row is None else int(row[0])


def cancellations(connection: sqlite3.Connection, key: str) -> list[CancellationRow]:
    """The orders to end runs of a session, in order."""
    return _cancellations(connection, "session_key = ?", key)


def cancellation(connection: sqlite3.Connection, event: int) -> CancellationRow | None:
    """The order that this event caused."""
    return next(iter(_cancellations(connection, "event = ?", event)), None)


def _cancellations(connection: sqlite3.Connection, condition: str, value: str | int) -> list[CancellationRow]:
    rows = connection.execute(
        "select event, attempt, told, outcome, carried_out_at from cancellations"  # noqa: S608 # one of two literals
        f" where {condition} order by event",
        (value,),
    )
    return [
        CancellationRow(event, attempt, None if told is None else bool(told), outcome, at)
        for event, attempt, told, outcome, at in rows
    ]


def decisions_about(connection: sqlite3.Connection, subject: str) -> list[DecisionRow]:
    """What was decided or refused about a session's key or `job N`, in order."""
    rows = connection.execute(
        "select event, handler, subject, at, verdict, summary, known"
        " from decisions where subject = ? order by id",
        (subject,),
    )
    return [DecisionRow(*row) for row in rows]


def lines_of(connection: sqlite3.Connection, key: str) -> list[LineRow]:
    """The lines for the journals of a session, in order."""
    rows = connection.execute(
        "select l.event, l.name, case when l.\"offset\" is not null then 'done'"
        " when l.why is not null then 'discarded' else 'owed' end,"
        ' l."offset", coalesce(length(l.content), 0), l.why'
        " from events e cross join journal_lines l on l.id between 256 * e.seq and 256 * e.seq + 255"
        " where e.key > ?1 || '#' and e.key < ?1 || '$' and e.lane = ?1 order by l.id",
        (key,),
    )
    return [LineRow(*row) for row in rows]


def jobs(connection: sqlite3.Connection, numbers: Iterable[int]) -> list[JobRow]:
    """The jobs with these numbers: held ones first, then in order."""
    rows = connection.execute(
        "select j.id, j.event, e.key, e.type, e.recorded_at, j.handler, j.lane, j.state, j.run_after,"
        " j.tries, j.error, j.updated_at, case when j.state = 'waiting' then coalesce("
        "  (select min(+b.id) from jobs b where b.state = 'running' and b.lane = j.lane and +b.id < j.id),"
        "  (select min(b.id) from jobs b where b.lane = j.lane and b.id < j.id"
        "   and b.state in ('waiting', 'held'))) end"
        " from jobs j join events e on e.seq = j.event"
        " where j.id in (select value from json_each(?)) order by j.state <> 'held', j.id",
        (listed(numbers),),
    )
    return [JobRow(*row) for row in rows]


def job(connection: sqlite3.Connection, number: int) -> JobRow | None:
    """The job with this number."""
    return next(iter(jobs(connection, [number])), None)


def open_jobs(connection: sqlite3.Connection, limit: int | None = None) -> list[JobRow]:
    """The jobs that are still open, the held ones first; at most `limit`."""
    rows = connection.execute(
        "select id from (select id, state from jobs where state in ('waiting', 'held')"
        " union all select id, state from jobs where state = 'running') order by state <> 'held', id limit ?",
        (-1 if limit is None else limit,),
    )
    return jobs(connection, [number for (number,) in rows])


def jobs_in_state(connection: sqlite3.Connection, state: str, limit: int | None = None) -> list[JobRow]:
    """The jobs in one state; with `limit` only the newest of them."""
    rows = connection.execute(
        "select id from jobs where state = ? order by id desc limit ?",
        (state, -1 if limit is None else limit),
    )
    return jobs(connection, [number for (number,) in rows])


def jobs_for_events(connection: sqlite3.Connection, events: Iterable[int]) -> list[JobRow]:
    """The jobs that these events created."""
    rows = connection.execute(
        "select j.id from json_each(?) e join jobs j on j.id between 32 * e.value and 32 * e.value + 31",
        (listed(events),),
    )
    return jobs(connection, [number for (number,) in rows])


def newest_job(connection: sqlite3.Connection, held: bool = False) -> int | None:
    """The newest job; with `held`, the newest held one."""
    (number,) = connection.execute(_NEWEST_HELD if held else "select max(id) from jobs").fetchone()
    return None if number is None else int(number)


_NEWEST_HELD: Final = "select max(+id) from jobs where state in ('waiting', 'held') and state = 'held'"
