"""The store as `runward why` and `runward queue` read it: events, decisions and jobs, in their order."""

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

_DEPTH: Final = 32
"""How far causes are followed back: as far as events may cause one another."""


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
    """A job with its event's key and type. `blocked_by` is the job before it that stops its lane."""

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


class LineRow(NamedTuple):
    """Lines that a journal was owed because of an event, and what became of them."""

    event: int
    directory: str
    name: str
    state: str
    offset: int | None
    length: int
    why: str | None


def events_of(connection: sqlite3.Connection, lane: str) -> list[EventRow]:
    """The events of a lane, together with what caused them elsewhere, the first cause first."""
    rows = connection.execute(
        f"with recursive chain (seq, cause, depth) as ("
        " select seq, cause, 0 from events where lane = ?1"
        " union select e.seq, e.cause, c.depth + 1 from events e join chain c on e.key = c.cause"
        f" where c.depth < {_DEPTH})"
        f" select {_EVENT} from events e where e.seq in (select seq from chain) order by e.seq",
        (lane,),
    )
    return [EventRow(*row) for row in rows]


def event_with_causes(connection: sqlite3.Connection, seq: int) -> list[EventRow]:
    """An event and what caused it, the first cause first."""
    rows = connection.execute(
        "with recursive chain (seq, cause, depth) as ("
        " select seq, cause, 0 from events where seq = ?1"
        " union select e.seq, e.cause, c.depth + 1 from events e join chain c on e.key = c.cause"
        f" where c.depth < {_DEPTH})"
        f" select {_EVENT} from events e where e.seq in (select seq from chain) order by e.seq",
        (seq,),
    )
    return [EventRow(*row) for row in rows]


def events_numbered(connection: sqlite3.Connection, numbers: Iterable[int]) -> list[EventRow]:
    """The events with these numbers, in order."""
    wanted = sorted(set(numbers))
    marks = ", ".join("?" * len(wanted))
    rows = connection.execute(f"select {_EVENT} from events e where seq in ({marks}) order by seq", wanted)
    return [EventRow(*row) for row in rows]


def event_recorded(connection: sqlite3.Connection, key: str) -> int | None:
    """The number of the event that is recorded under `key`."""
    row = connection.execute("select seq from events where key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def decisions_about(connection: sqlite3.Connection, subject: str) -> list[DecisionRow]:
    """What was decided or refused about a session's key or `job N`, in order."""
    rows = connection.execute(
        f"select {', '.join(DecisionRow._fields)} from decisions where subject = ? order by id", (subject,)
    )
    return [DecisionRow(*row) for row in rows]


def decisions_on(connection: sqlite3.Connection, event: int) -> list[DecisionRow]:
    """What was decided or refused because of an event, in order."""
    rows = connection.execute(
        f"select {', '.join(DecisionRow._fields)} from decisions where event = ? order by id", (event,)
    )
    return [DecisionRow(*row) for row in rows]


def lines_of(connection: sqlite3.Connection, key: str) -> list[LineRow]:
    """The lines that a session's journals were owed, in order."""
    rows = connection.execute(
        'select event, directory, name, state, "offset", length, why from outbox where session_key = ?'
        " order by id",
        (key,),
    )
    return [LineRow(*row) for row in rows]


def job(connection: sqlite3.Connection, number: int) -> JobRow | None:
    """The job with this number."""
    row = connection.execute(f"{_JOBS} where j.id = ?", (number,)).fetchone()
    return None if row is None else JobRow(*row)


def jobs_of(connection: sqlite3.Connection, lane: str) -> list[JobRow]:
    """All jobs of a lane, in order."""
    return [JobRow(*row) for row in connection.execute(f"{_JOBS} where j.lane = ? order by j.id", (lane,))]


def jobs_in(connection: sqlite3.Connection, states: Iterable[str], limit: int | None = None) -> list[JobRow]:
    """The jobs in any of these states: held ones first, then in order."""
    wanted = list(states)
    marks = ", ".join("?" * len(wanted))
    rows = connection.execute(
        f"{_JOBS} where j.state in ({marks}) order by j.state <> 'held', j.id limit ?",
        (*wanted, -1 if limit is None else limit),
    )
    return [JobRow(*row) for row in rows]


def newest_job(connection: sqlite3.Connection, held: bool = False) -> int | None:
    """The job that was made last; with `held`, the last among the held ones."""
    (number,) = connection.execute(
        "select max(id) from jobs where ?1 = 0 or state = 'held'", (int(held),)
    ).fetchone()
    return None if number is None else int(number)


def newest_conclusions(connection: sqlite3.Connection) -> list[tuple[float, str]]:
    """The newest session that ended, the newest refusal and the newest held job: when, and of what."""
    return [
        (at, subject)
        for query in (
            "select recorded_at, lane from events where type = 'SessionFinished' order by seq desc limit 1",
            "select at, subject from decisions where verdict = 'refused' order by id desc limit 1",
            "select updated_at, 'job ' || id from jobs where state = 'held' order by updated_at desc limit 1",
        )
        for at, subject in connection.execute(query)
    ]


_EVENT: Final = ", ".join(f"e.{field}" for field in EventRow._fields)

_JOBS: Final = (
    "select j.id, j.event, e.key, e.type, e.recorded_at, j.handler, j.lane, j.state, j.run_after, j.tries,"
    " j.error, j.updated_at, case when j.state = 'waiting' then (select min(b.id) from jobs b"
    " where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'running', 'held')) end"
    " from jobs j join events e on e.seq = j.event"
)
