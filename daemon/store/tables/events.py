"""Events, and what handlers decided because of them.

The keys of a session's events begin with the session's own, so they are found by the index on keys. That is why the
queries compare keys with `key || '#'` and `key || '$'`, the character after it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import row_of, rows_of, select, value_of, values_of
from runward.daemon.store.tables.table import Table
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:
    from runward.daemon.store.hash_chain import Head, Recorded
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.effects import Emit, Explain
    from runward.handlers.model.events import Event


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


def session_events(connection: sqlite3.Connection, key: str) -> list[EventRow]:
    """The events of a session, the requests about it, and their causes elsewhere, first cause first."""
    rows = connection.execute(
        "select seq from events where key > ?1 || '#' and key < ?1 || '$' and lane = ?1"
        " union select event from decisions where subject = ?1"
        " union select event from jobs where lane = ?1 and state in ('waiting', 'held')"
        # The cause of an event that reports several actions is the first one's.
        " union select i.seq from events t, json_each(t.payload, '$.further') f join events i on i.key = f.value ->> 'action'"
        " where t.key > ?1 || '#' and t.key < ?1 || '$' and t.lane = ?1 and t.type = 'ActionTaken'",
        (key,),
    )
    return events_with_causes(connection, [seq for (seq,) in rows])


def events_with_causes(connection: sqlite3.Connection, numbers: Iterable[int]) -> list[EventRow]:
    """These events and their causes, first cause first."""
    rows = connection.execute(
        select(
            EventRow,
            "from events where seq in (with recursive chain (seq, cause) as ("
            " select seq, cause from events where seq in (select value from json_each(?))"
            " union select e.seq, e.cause from chain c join events e on e.key = c.cause)"
            " select seq from chain) order by seq",
        ),
        (listed(numbers),),
    )
    return rows_of(EventRow, rows)


def event_recorded(connection: sqlite3.Connection, key: str) -> int | None:
    """The number of the event with this key."""
    return value_of(int, connection.execute("select seq from events where key = ?", (key,)).fetchone())


def decisions_about(connection: sqlite3.Connection, subject: str) -> list[DecisionRow]:
    """What was decided or refused about a session's key or `job N`, in order."""
    rows = connection.execute(select(DecisionRow, "from decisions where subject = ? order by id"), (subject,))
    return rows_of(DecisionRow, rows)


MOST_EVENTS: Final = 10_000
"""Events that are read at once. With more of them it is not known what changed."""


_NEWEST: Final = "select max(coalesce((select max(seq) from events), 0), coalesce((select max(last) from absent_events), 0))"


_LANES: Final = "select lane from events where seq > ?1 union select lane from jobs where id >= 32 * (?1 + 1)"


def newest_event(connection: sqlite3.Connection) -> int:
    """The number of the newest event, whether or not its row is still there. 0 if there was none."""
    return value_of(int, connection.execute(_NEWEST).fetchone()) or 0


def lanes_after(connection: sqlite3.Connection, seq: int) -> frozenset[str] | None:
    """The lanes of the events after this one, and those of their jobs.

    None if it is not known: the store is older than that, events in between were pruned or packed, or there are too many.
    """
    # A restored store may be older than what a page saw last, so its newest number may be smaller.
    if not 0 <= newest_event(connection) - seq <= MOST_EVENTS:
        return None
    if (
        connection.execute("select 1 from absent_events where last > ? limit 1", (seq,)).fetchone()
        is not None
    ):
        return None
    return frozenset(values_of(str, connection.execute(_LANES, (seq,))))


LATEST_DECISIONS: Final = 20_000
"""Decisions that are looked through, the newest ones, because people look at the result of a request soon."""


class Decided(NamedTuple):
    """A decision about a request, or about what it led to."""

    subject: str
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
    return value_of(int, row)


def decisions_on(connection: sqlite3.Connection, request: str) -> list[Decided]:
    """What was decided about a request and about what it led to, in order; only among the newest `LATEST_DECISIONS`."""
    # Only what was recorded after the request can follow from it: of the other decisions, no event is looked up.
    rows = connection.execute(
        select(
            Decided,
            "from decisions d cross join events e on e.seq = d.event"
            " where d.id > (select max(id) from decisions) - ?2"
            " and d.event >= coalesce((select seq from events where key = ?1), 0)"
            " and (e.key = ?1 or e.cause = ?1) order by d.id",
            "d",
        ),
        (request, LATEST_DECISIONS),
    )
    return rows_of(Decided, rows)


def why_refused(connection: sqlite3.Connection, request: str, subject: str | None = None) -> str | None:
    """Why a request, or what it led to, was refused, once that is decided; with a `subject`, only as to that."""
    for each in decisions_on(connection, request):
        if each.verdict == "refused" and subject in (None, each.subject):
            return each.summary
    return None


INSERT_EVENT: Final = Write(
    "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


# Not attempt 0: a launch comes before its session's attempts, so no attempt that was pruned shows that it was recorded.
_SESSION_EVENT: Final = re.compile(r"(.+)#([1-9][0-9]{0,8})/.+", re.DOTALL)
"""The key of an event of an attempt: its session's, and its attempt's number."""


_HEAD: Final = (
    "select * from (select seq, hash from events order by seq desc limit 1)"
    " union all select * from (select last, hash from absent_events order by last desc limit 1) order by 1 desc"
)


async def events_head(store: Reader) -> Head:
    """The end of the chain of events: the next one follows it."""
    from runward.daemon.store.hash_chain import GENESIS_HEAD, Head

    last = await store.read(_HEAD)
    return rows_of(Head, last)[0] if last else GENESIS_HEAD


def last_event(connection: sqlite3.Connection) -> Head:
    """The same, for programs that only read."""
    from runward.daemon.store.hash_chain import GENESIS_HEAD, Head

    return row_of(Head, connection.execute(_HEAD).fetchone()) or GENESIS_HEAD


def hash_of_event(connection: sqlite3.Connection, number: int) -> str | None:
    """The hash of an event; None if there is none of this number, or it was pruned."""
    row = connection.execute(
        "select hash from events where seq = ?1 union all select hash from absent_events where last = ?1",
        (number,),
    ).fetchone()
    return value_of(str, row)


async def known_events(store: Reader, keys: Iterable[str]) -> frozenset[str]:
    """Those of the keys under which an event is recorded, or was before it was pruned."""
    asked = list(keys)
    attempts = attempts_of(asked)
    # One query, because verdicts wait for the answer.
    rows = await store.read(
        "select key, null from events where key in (select value from json_each(?1)) union all"
        " select session_key, attempt from tombstones where session_key in (select value from json_each(?2))",
        (listed(asked), listed({session for session, _ in attempts.values()})),
    )
    known = rows_of(tuple[str, int | None], rows)
    recorded = {key for key, attempt in known if attempt is None}
    # A pruned session's events are gone, but its tombstone has the number of its last attempt: those up to it were there.
    pruned = {session: attempt for session, attempt in known if attempt is not None}
    return frozenset(recorded).union(
        key for key, (session, attempt) in attempts.items() if attempt <= pruned.get(session, 0)
    )


def attempts_of(keys: Iterable[str]) -> dict[str, tuple[str, int]]:
    """For those of these event keys that belong to an attempt: its session, and its number."""
    matches = ((key, _SESSION_EVENT.fullmatch(key)) for key in keys)
    return {key: (match[1], int(match[2])) for key, match in matches if match is not None}


def add_event(
    batch: Batch,
    event: Event,
    cause: str | None = None,
    depth: int = 0,
) -> Recorded:
    """Record an event with a job for each of its handlers, claimed unless it must wait."""
    # Commands that read events do without these.
    from runward.daemon.store.hash_chain import Head, link
    from runward.daemon.store.tables.jobs import add_job
    from runward.handlers.route import duties, in_background

    # Numbered before the transaction runs: no other writer can take the number, or the epoch's check refuses us.
    recorded = link(batch.head, event, batch.now, cause, depth)
    batch.head = Head(recorded.seq, recorded.hash)
    batch.row(
        INSERT_EVENT,
        (
            recorded.seq,
            event.key,
            event.type,
            event.version,
            event.lane,
            event.at,
            batch.now,
            cause,
            depth,
            recorded.payload,
            recorded.hash,
        ),
    )
    for duty in duties(event):
        waits = duty.due > batch.now or in_background(duty.lane) or batch.blocked(duty.lane, recorded.seq)
        add_job(batch, recorded, duty, waits)
    return recorded


def _emit(batch: Batch, job: Job, effect: Emit) -> None:
    from runward.handlers.model.events import AfterTime

    # Events that wait for a time can't form an endless loop at once, so their depth begins at 0 again.
    depth = 0 if isinstance(effect.event, AfterTime) else job.depth + 1
    add_event(batch, effect.event, job.event.key, depth)


INSERT_DECISION: Final = Write(
    "insert into decisions (event, handler, subject, at, verdict, summary, known) values (?, ?, ?, ?, ?, ?, ?)"
)


def _explain(batch: Batch, job: Job, effect: Explain) -> None:
    known = None if effect.known is None else stored_json(effect.known).decode()
    row = (job.seq, job.handler, effect.subject, batch.now, effect.verdict, effect.summary, known)
    batch.row(INSERT_DECISION, row)


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.effects import Emit

    return Table(
        writes=(INSERT_EVENT,),
        appliers={Emit: _emit},
        goes_with_event=("delete from moved_payloads where event = ?",),
    )


def decisions() -> Table:
    """The same of decisions."""
    from runward.handlers.model.effects import Explain

    return Table(
        writes=(INSERT_DECISION,),
        appliers={Explain: _explain},
        goes_with_session=(
            "delete from decisions where subject = ?",
            "delete from decisions where subject in (select 'start ' || name from starts where session_key = ?)",
        ),
        goes_with_chain_run=("delete from decisions where subject = ?",),
    )
