"""The receipts: one for each attempt of a live session, in one chain; and the parts that are not in place yet."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic_core import from_json, to_json

from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.daemon.store.reading_attempts import ATTEMPTS
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.replays import GONE
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.values import as_float, as_int, listed
from runward.handlers.calls import BeganAndEnded, stretch_of
from runward.handlers.model.bundle import (
    Part,
    RecordReceipt,
    Reported,
    ReportedOf,
    Stretch,
    StretchOf,
    dump_order,
    load_parts,
)

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into receipts (session_key, attempt, receipt_hash, prev, directory, parts, facts, summary, problem,"
    " recorded_at, placed_at, place_problem) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

LOOKED_FOR: Final = "its parts are looked for after a restore"
"""The problem of a bundle whose parts were in place when the backup was made, until they were looked for."""

PLACED: Final = (
    "update receipts set placed_at = ?, place_problem = ?, directory = ? where seq = ? and placed_at is null"
)


class UnplacedBundle(NamedTuple):
    """A recorded bundle whose parts may still have their temporary names."""

    seq: int
    key: str
    attempt: int
    directory: str
    parts: tuple[Part, ...]
    receipt_hash: str
    prev: str | None
    facts: str
    place_problem: str | None
    """What was known about its place when the store was backed up; None if it was never placed."""
    recorded_at: float


async def head(store: Store) -> str | None:
    """The hash of the last receipt in the chain; None if there is none."""
    rows = await store.read(
        "select receipt_hash from receipts where receipt_hash is not null order by seq desc limit 1"
    )
    return str(rows[0][0]) if rows else None


async def unplaced(store: Store, after: int, most: int, was_placed: bool = False) -> list[UnplacedBundle]:
    """The bundles after this number to put in place, oldest first, at most this many.

    With `was_placed`, those that were in place when the store was backed up, whose parts must be looked for.
    """
    rows = await store.read(
        "select seq, session_key, attempt, directory, parts, receipt_hash, prev, facts, place_problem,"
        " recorded_at from receipts"
        " where placed_at is null and seq > ? and (place_problem is not null) = ? order by seq limit ?",
        (after, int(was_placed), most),
    )
    return [
        UnplacedBundle(
            as_int(seq),
            str(key),
            as_int(attempt),
            str(directory),
            load_parts(str(parts)),
            str(receipt_hash),
            None if prev is None else str(prev),
            str(facts),
            None if problem is None else str(problem),
            as_float(recorded_at),
        )
        for seq, key, attempt, directory, parts, receipt_hash, prev, facts, problem, recorded_at in rows
    ]


async def own_places(store: Store, keys: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The directories in our own state with the bundles of these sessions, each with the names of its parts."""
    rows = await store.read(
        "select directory, parts from receipts where session_key in (select value from json_each(?))"
        " and directory not like '/%'",
        (listed(keys),),
    )
    return [
        (str(directory), tuple(part.name for part in load_parts(str(parts)))) for directory, parts in rows
    ]


async def stretches(store: Store, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Stretch]:
    """The start and end of each of these attempts, by session key and attempt."""
    asked = list(attempts)
    rows = await store.read(
        f"{ATTEMPTS} where a.session_key in (select value from json_each(?)) order by a.session_key, a.attempt",  # noqa: S608 # our own words
        (listed(dict.fromkeys(key for key, _ in asked)),),
    )
    known: dict[str, list[BeganAndEnded]] = {}
    for key, attempt, started_at, ended_at, digest, before, following in rows:
        assert isinstance(started_at, float)
        assert ended_at is None or isinstance(ended_at, float)
        began = BeganAndEnded(
            as_int(attempt),
            started_at,
            ended_at,
            None if digest is None else str(digest),
            None if before is None else as_int(before),
            None if following is None else as_int(following),
        )
        known.setdefault(str(key), []).append(began)
    found = {(key, attempt): stretch_of(known.get(key, ()), attempt) for key, attempt in asked}
    return {each: stretch for each, stretch in found.items() if stretch is not None}


async def reported(store: Store, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Reported]:
    """The data for the summaries of these attempts, by session key and attempt."""
    rows = await store.read(
        "select s.key, asked.value ->> 1,"
        " (select h.reason_summary from status_history h where h.session_key = s.key and h.attempt = asked.value ->> 1"
        "  order by h.id desc limit 1),"
        " (select json_group_array(a.summary) from artifacts a where a.session_key = s.key and a.summary is not null),"
        " case when s.layout <> ? then json_extract(c.state, '$[10]') end,"
        " (select json_extract(e.payload, '$.declaration.cwd') from events e where e.key = s.key || '#1/started')"
        " from json_each(?) asked join sessions s on s.key = asked.value ->> 0 left join cursors c on c.key = s.key",
        (DEFAULT_LAYOUT, listed(attempts)),
    )
    found: dict[tuple[str, int], Reported] = {}
    for key, attempt, reason, changes, about, declared in rows:
        cwd, _, _, given, made = (None,) * 5 if about is None else from_json(str(about))
        found[str(key), as_int(attempt)] = Reported(
            "" if reason is None else str(reason),
            tuple(str(each) for each in from_json(str(changes)) if each),
            None if given is None or made is None else (int(given), int(made)),
            next((each for each in (cwd, declared) if isinstance(each, str)), None),
        )
    return found


def _record(batch: "Batch", job: Job, effect: RecordReceipt) -> None:
    order, sealed = effect.order, effect.sealed
    parts: tuple[Part, ...] = ()
    if effect.draft is not None:
        assert sealed is not None, "a receipt is recorded once it names the one before it"
        parts = (*effect.draft.parts, sealed.part)
    batch.row(
        INSERT,
        (
            order.key,
            order.attempt,
            None if sealed is None else sealed.receipt_hash,
            None if sealed is None else sealed.prev,
            order.directory,
            to_json(parts).decode(),
            dump_order(order),
            None if effect.draft is None else effect.draft.summary,
            effect.problem,
            batch.now,
            batch.now if sealed is None else None,
            None,
        ),
    )
    if order.grown is not None:
        batch.row(GONE, (order.key, order.attempt))


RECEIPTS: Final = Table(
    writes=(INSERT,),
    appliers={RecordReceipt: _record},
    answers={
        StretchOf: answers_by(stretches, lambda asked: (asked.key, asked.attempt)),
        ReportedOf: answers_by(reported, lambda asked: (asked.key, asked.attempt), Reported()),
    },
)
