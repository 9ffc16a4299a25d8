"""Pruning the record of old sessions, as statements: what is deleted, and the tombstones that stay.

Nothing is deleted from a session that runs or has open work: a job, a line, an order, a hash, a comparison. The chain
of events stays verifiable, because the number and hash of the last event of each unbroken stretch stay.
"""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from runward.daemon.store.packing import Slice, absent, packed_sessions
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables.prunings import ASKED, ASKED_LATELY, NOTHING_OWED
from runward.daemon.store.tables.sessions import STORED
from runward.daemon.store.transaction import Reader, Row, Statement, Value, as_float, as_int, listed
from runward.handlers.model.events import Event
from runward.handlers.model.exchange import IntentMade
from runward.handlers.model.requests import PlayRunRequested
from runward.handlers.model.sessions import AttemptStarted, HookSpoke
from runward.handlers.requests import run_name
from runward.handlers.subjects import of_start

_CANDIDATES: Final = (
    f"select s.key, s.started_at, s.rowid, s.finished_at < ?1 and {NOTHING_OWED} and not exists ("  # noqa: S608 # our own words
    "  select 1 from events e where e.key > s.key || '#' and e.key < s.key || '$' and e.lane = s.key"
    "  and e.recorded_at >= ?3)"
    " and not exists (select 1 from packed p where p.session_key = s.key and p.recorded_at >= ?3)"
    " from sessions s where (s.started_at, s.rowid) > (?4, ?5) and s.started_at < ?1"
    " order by s.started_at, s.rowid limit ?6"
)
_EVENTS: Final = (
    "select e.seq, e.hash, k.value, e.key from json_each(?1) k cross join events e"  # noqa: S608 # our own words
    " on e.key > k.value || '#' and e.key < k.value || '$' and e.lane = k.value"
    " union select e.seq, e.hash, k.value, e.key from json_each(?1) k cross join events e"
    f" on e.lane = k.value and {ASKED}"
    " union select e.seq, e.hash, k.value, e.key from json_each(?1) k cross join starts x on x.session_key = k.value"
    " join events e on e.seq = x.event and not exists (select 1 from chain_runs r where r.event = e.seq)"
    " and not exists (select 1 from sessions o where o.key = e.lane)"
)
"""What is recorded of sessions: also what had them started, unless that is another session's or a chain run's."""

_LOOSE: Final = (
    "select e.lane, e.seq, e.hash, e.type, e.payload, e.recorded_at < ?3"  # noqa: S608 # our own words
    "  and not exists (select 1 from sessions s where s.key = e.lane)"
    f"  and (e.type <> '{IntentMade.type}'"
    "   or not exists (select 1 from sessions s where s.key = e.payload ->> 'session_key'))"
    "  and not exists (select 1 from starts x where x.event = e.seq)"
    "  and not exists (select 1 from chain_runs x where x.event = e.seq)"
    "  and not exists (select 1 from prunings x where x.event = e.seq and x.ended_at is null)"
    "  and not exists (select 1 from jobs j where j.id between 32 * e.seq and 32 * e.seq + 31"
    "   and j.state not in ('done', 'discarded'))"
    f" from events e indexed by events_asked where {ASKED}"
    " and (e.lane, e.seq) > (?1, ?2) order by e.lane, e.seq limit ?4"
)
_OWN_COLUMNS: Final = ("key", "session_id", "status", "attempt", "started_at", "finished_at")
"""What a tombstone has in columns of its own."""

_KEPT: Final = tuple(
    name
    for name in STORED
    if name not in (*_OWN_COLUMNS, "evidence_refs", "artifact_verification_json", "delivery")
)
"""What a tombstone keeps besides: a session that goes on is restored from it."""

_ENTOMB: Final = (
    "insert into tombstones (session_key, session_id, status, attempt, started_at, finished_at, event, hash, pruned_at,"  # noqa: S608 # our own words
    " kept) select s.key, s.session_id, s.status, s.attempt, s.started_at, s.finished_at, ?2, ?3, ?4, json_object("
    + ", ".join(f"'{name}', s.{name}" for name in _KEPT)
    + ", 'attempt_started_at', coalesce(a.started_at, ?5))"
    " from sessions s left join attempts a on a.session_key = s.key and a.attempt = s.attempt where s.key = ?1"
    " on conflict (session_key) do update set status = excluded.status, attempt = excluded.attempt,"
    " finished_at = excluded.finished_at, event = excluded.event, hash = excluded.hash,"
    " pruned_at = excluded.pruned_at, kept = excluded.kept"
)
_OF_SESSIONS: Final = ("delete from packed where session_key = ?", *tables.GO_WITH_SESSION)
_SESSION: Final = "delete from sessions where key = ?"
_EVENT: Final = "delete from events where seq = ?"
_DECISION: Final = "delete from decisions where subject = ? and event = ?"
_HOOK: Final = "delete from hooks where session_key = ?"

_REOPEN: Final = (
    "insert into sessions (key, session_id, status, attempt, started_at, finished_at, evidence_refs,"  # noqa: S608 # our own words
    f" {', '.join(_KEPT)}) select session_key, session_id, status, attempt, started_at, finished_at, '[]',"
    + ", ".join(f" kept ->> '{name}'" for name in _KEPT)
    + " from tombstones where session_key = ?"
)
_REOPEN_ATTEMPT: Final = (
    "insert into attempts (session_key, attempt, started_at, status, ended_by, reason_code, ended_at)"
    " select session_key, attempt, kept ->> 'attempt_started_at', status, kept ->> 'ended_by', kept ->> 'reason_code',"
    " finished_at from tombstones where session_key = ?"
)


class Place(NamedTuple):
    """The position in the walk over the sessions, in the order in which they started."""

    started_at: float
    row: int


class LoosePlace(NamedTuple):
    """The position in the walk over what came through the inbox."""

    lane: str
    seq: int


FIRST: Final = Place(float("-inf"), 0)
FIRST_LOOSE: Final = LoosePlace("", 0)


async def sessions_to_prune(
    store: Reader, place: Place, before: float, recorded_before: float | None, most: int, now: float
) -> Slice[Place]:
    """The next slice of the walk over sessions that ended and were recorded before these times (Unix seconds)."""
    candidates = await store.read(_CANDIDATES, (before, now - ASKED_LATELY, recorded_before, *place, most))
    if not candidates:
        return Slice((), None)
    last = Place(as_float(candidates[-1][1]), as_int(candidates[-1][2]))
    keys = [str(key) for key, _, _, goes in candidates if goes]
    if not keys:
        return Slice((), last)
    events = await store.read(_EVENTS, (listed(keys),))
    ends: dict[str, tuple[int, str]] = {}
    for seq, digest, session, key in sorted(events, key=lambda row: as_int(row[0])):
        if str(key).startswith(str(session) + "#"):
            ends[str(session)] = (as_int(seq), str(digest))
    documents = await packed_sessions(store, keys)
    began: dict[str, Value] = {
        key: at for key, each in documents.items() for (at,) in each.values("attempts", "started_at")
    }
    # A packed session has no rows of events: its document tells its last one.
    ends |= {key: each.last for key, each in documents.items()}
    keys = [key for key in keys if key in ends]
    rows: list[Row] = [(key,) for key in keys]
    # The tombstone takes its values from the rows that the next statements delete.
    statements = [Statement(_ENTOMB, [(key, *ends[key], now, began.get(key)) for key in keys], exact=True)]
    statements += [Statement(sql, rows) for sql in _OF_SESSIONS]
    statements.append(Statement(_SESSION, rows, exact=True))
    statements += await _without(store, {as_int(seq): str(digest) for seq, digest, _, _ in events})
    return Slice(statements, last, keys)


async def loose_to_prune(
    store: Reader, place: LoosePlace, before: float, most: int, now: float
) -> Slice[LoosePlace]:
    """The next slice of the walk over requests that were recorded before a moment and belong to no session."""
    rows = await store.read(_LOOSE, (*place, min(before, now - ASKED_LATELY), most))
    if not rows:
        return Slice((), None)
    going = [row for row in rows if row[5]]
    statements = []
    if going:
        about: list[Row] = [(_subject(str(row[0]), str(row[3]), str(row[4])), row[1]) for row in going]
        unknown: list[Row] = [(row[0],) for row in going if row[3] == HookSpoke.type]
        statements = [
            Statement(_DECISION, about),
            Statement(_HOOK, unknown),
            *await _without(store, {as_int(row[1]): str(row[2]) for row in going}),
        ]
    return Slice(statements, LoosePlace(str(rows[-1][0]), as_int(rows[-1][1])))


def _subject(lane: str, kind: str, payload: str) -> str:
    """The subject of the decision about a request."""
    if kind == PlayRunRequested.type:
        asked = json.loads(payload)
        return of_start(run_name(asked["playbook"], asked["at"], asked["request"]))
    return f"job {lane.removeprefix('queue:')}" if lane.startswith("queue:") else lane


async def _without(store: Reader, events: dict[int, str]) -> list[Statement]:
    """Delete these events (their numbers and hashes), with everything that refers to their numbers."""
    if not events:
        return []
    rows: list[Row] = [(seq,) for seq in sorted(events)]
    return [
        *(Statement(sql, rows) for sql in tables.GO_WITH_EVENT),
        # Children before their parents: jobs and lines refer to events.
        Statement(_EVENT, rows, exact=True),
        *await absent(store, events),
    ]


async def reopened(store: Reader, events: Iterable[Event]) -> list[Statement]:
    """Restore the sessions whose record was pruned and that a further attempt among these events continues."""
    sessions = {each.session_key for each in events if isinstance(each, AttemptStarted) and each.attempt > 1}
    if not sessions:
        return []
    continued = await store.read(
        "select session_key from tombstones where session_key in (select value from json_each(?))"
        " and session_key not in (select key from sessions)",
        (listed(sessions),),
    )
    rows: list[Row] = [(str(key),) for (key,) in continued]
    return [Statement(_REOPEN, rows, True), Statement(_REOPEN_ATTEMPT, rows, True)] if rows else []


_OLD_CHAIN_RUNS: Final = (
    "select r.id, r.updated_at < ?2 and r.status not in ('running', 'waiting_approval')"
    " and not exists (select 1 from jobs j where j.lane = r.id and j.state in ('waiting', 'held'))"
    " and not exists (select 1 from jobs j where j.lane = r.id and j.state = 'running')"
    " and not exists (select 1 from chain_steps x join sessions s on s.key = x.session_key where x.run = r.id)"
    " and not exists (select 1 from chain_steps x join starts y on y.session_key = x.session_key where x.run = r.id"
    "  and y.state = 'owed')"
    " from chain_runs r where r.id > ?1 order by r.id limit ?3"
)
_SESSIONS: Final = (
    "select distinct session_key from chain_steps where session_key is not null"
    " and run in (select value from json_each(?))"
)
_RUN: Final = "delete from chain_runs where id = ?"
_SKIPPED: Final = "select id from firings where run is null and at < ?2 and id > ?1 order by id limit ?3"
_FIRING: Final = "delete from firings where id = ?"

FIRST_CHAIN_RUN: Final = ""
FIRST_FIRING: Final = 0


async def chain_runs_to_prune(store: Reader, place: str, before: float, most: int, now: float) -> Slice[str]:
    """The next slice of the walk over chain runs that ended before a moment (Unix seconds)."""
    runs = await store.read(_OLD_CHAIN_RUNS, (place, min(before, now - ASKED_LATELY), most))
    if not runs:
        return Slice((), None)
    going = [str(run) for run, goes in runs if goes]
    last = str(runs[-1][0])
    if not going:
        return Slice((), last)
    # If a step's run was never seen, there is no session to wait for.
    unseen: list[Row] = [(key,) for (key,) in await store.read(_SESSIONS, (listed(going),))]
    rows: list[Row] = [(run,) for run in going]
    statements = [Statement(sql, unseen) for sql in tables.GO_WITH_SESSION] if unseen else []
    statements += [Statement(sql, rows) for sql in tables.GO_WITH_CHAIN_RUN]
    statements.append(Statement(_RUN, rows, exact=True))
    return Slice(statements, last)


async def firings_to_prune(store: Reader, place: int, before: float, most: int) -> Slice[int]:
    """The next slice of the walk over skips and misses from before a moment (Unix seconds)."""
    firings = await store.read(_SKIPPED, (place, before, most))
    if not firings:
        return Slice((), None)
    rows: list[Row] = [(row[0],) for row in firings]
    return Slice([Statement(_FIRING, rows, exact=True)], as_int(firings[-1][0]))
