"""The queue as commands read it from the store: events, what was decided, jobs, and the results of requests.

The keys of a session's events begin with the session's own, so they are found by the index on keys. A plus before a
column makes SQLite read the few open jobs instead of scanning all jobs by number."""

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.transaction import listed
from runward.handlers.times import iso


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

    def as_json(self) -> dict[str, JsonValue]:
        """The job as `queue list --json` prints it."""
        return {
            "id": self.id,
            "event": self.event_key,
            "type": self.event_type,
            "handler": self.handler,
            "lane": self.lane,
            "state": self.state,
            "tries": self.tries,
            "error": self.error,
            "recorded_at": iso(self.recorded_at),
            "due_at": iso(self.run_after) if self.run_after else None,
            "updated_at": iso(self.updated_at),
            "blocked_by": self.blocked_by,
        }


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
        CancellationRow(event, attempt, None if was_told is None else bool(was_told), outcome, at)
        for event, attempt, was_told, outcome, at in rows
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


def jobs_soon(connection: sqlite3.Connection, now: float) -> dict[int, tuple[str, str, int]] | None:
    """The jobs that run, are held, or are due soon, by number: lane, state, tries. None if there are too many."""
    rows = connection.execute(_OPEN, (now + SOON_S, MOST_JOBS + 1)).fetchall()
    return {job: (lane, state, tries) for job, lane, state, tries in rows} if len(rows) <= MOST_JOBS else None


LATEST_DECISIONS: Final = 20_000
"""Decisions that are looked through, the newest ones, because people look at the result of a request soon."""


class Decided(NamedTuple):
    """A decision about a request, or about what it led to."""

    verdict: str
    summary: str


def event_of(connection: sqlite3.Connection, request: str) -> int | None:
    """The number of a request's event. Its key is the request's name, except for those that say what a person has seen."""
    event = event_recorded(connection, request)
    if event is not None:
        return event
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
        (request, LATEST_DECISIONS),
    )
    return [Decided(*row) for row in rows]


def why_refused(connection: sqlite3.Connection, request: str) -> str | None:
    """Why a request, or what it led to, was refused, once that is decided."""
    decisions = decisions_on(connection, request)
    return next((each.summary for each in decisions if each.verdict == "refused"), None)


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
