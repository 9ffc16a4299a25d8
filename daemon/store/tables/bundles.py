"""What bundles are made of and end in: hashes of files, growing replays, receipts and their signatures."""

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from runward.config.bundle import BundleRules, Scheme
from runward.config.json_value import from_stored_json, stored_json
from runward.config.root import NATIVE
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading_bundles import ATTEMPTS
from runward.daemon.store.remembered_fields import ABOUT
from runward.daemon.store.store import Store
from runward.daemon.store.tables.prunings import PROGRESS
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import Row, as_float, as_int, listed, stored_text
from runward.handlers.calls import BeganAndEnded, stretch_of
from runward.handlers.model.bundle import (
    BegunReplay,
    BegunReplayOf,
    Grown,
    RecordReceipt,
    Reported,
    ReportedOf,
    SignReceipt,
    Step,
    Stretch,
    StretchOf,
    dump_order,
)
from runward.handlers.model.contracts import ProducedBy, ProducedFiles, RecordFiles
from runward.handlers.model.files import Produced
from runward.handlers.model.part import Part, load_parts
from runward.handlers.model.stored import Stored, as_json

INSERT_SIGNING: Final = Write(
    "insert into signings (event, session_key, attempt, scheme, said_by) values (?, ?, ?, ?, ?)"
)
SIGNING_SETTLED: Final = "update signings set settled_at = ?, signature = ?, part = ?, problem = ? where id = ? and settled_at is null"


class OwedSigning(NamedTuple):
    """A receipt to sign. `directory` is its location; without a `receipt_hash` there is no receipt.

    `is_coming` says that it is still being made, or has no name yet.
    """

    id: int
    key: str
    attempt: int
    scheme: Scheme
    directory: str
    receipt_hash: str | None
    is_coming: bool


async def owed_signings(store: Store, after: int, most: int) -> list[OwedSigning]:
    """The receipts still to be signed after this number, oldest first, at most this many."""
    rows = await store.read(
        "select s.id, s.session_key, s.attempt, s.scheme, r.directory, r.receipt_hash,"
        " case when r.seq is null then exists ("
        "  select 1 from events e join jobs j on j.event = e.seq"
        "  where e.key = s.session_key || '#' || s.attempt || '/finished' and j.handler = 'bundle/write'"
        "  and j.state in ('waiting', 'running'))"
        " else r.receipt_hash is not null and r.placed_at is null end"
        " from signings s left join receipts r on r.session_key = s.session_key and r.attempt = s.attempt"
        " where s.settled_at is null and s.id > ? order by s.id limit ?",
        (after, most),
    )
    return [
        OwedSigning(
            as_int(number),
            str(key),
            as_int(attempt),
            "nostr" if scheme == "nostr" else "ed25519",
            str(directory or ""),
            None if digest is None else str(digest),
            bool(coming),
        )
        for number, key, attempt, scheme, directory, digest, coming in rows
    ]


def _owe(batch: Batch, job: Job, effect: SignReceipt) -> None:
    batch.row(INSERT_SIGNING, (job.seq, effect.key, effect.attempt, effect.scheme, effect.said_by))


SIGNINGS: Final = Table(writes=(INSERT_SIGNING,), appliers={SignReceipt: _owe})


GROW_REPLAY: Final = (
    "insert into replays (session_key, attempt, rules, issue_number, policy_bundle_id, steps, length, sha256, problem)"
    " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 from sessions where key = ?1 and attempt = ?2 and status = 'running'"
    " on conflict (session_key, attempt) do update set steps = excluded.steps, length = excluded.length,"
    " sha256 = excluded.sha256, problem = excluded.problem"
)
"""What will be written. Once the attempt is over this changes nothing: the bundle's job writes the rest."""

REPLAY_GONE: Final = Write("delete from replays where session_key = ? and attempt = ?", exact=False)
"""The receipt of the whole replay is recorded."""

_RULES: Final = Stored(BundleRules)


class RunningReplay(NamedTuple):
    """A session that runs, where its files are, and what is written of its replay. `place` is root and place.

    `state` is what is remembered of its files. Without `begun` nothing was written. `actions` are those
    in the exchange that have their results. `problem` says why nothing more is.
    """

    place: str
    key: str
    session_id: str
    layout: str
    path: str
    attempt: int
    state: str
    begun: BegunReplay | None
    actions: int
    problem: str | None


async def running_replays(store: Store, places: Iterable[str]) -> list[RunningReplay]:
    """The sessions at these places (root and place) that run, as the last look found them."""
    rows = await store.read(
        "select asked.value, s.key, s.session_id, s.layout, s.path, s.attempt, cast(c.state as blob),"  # noqa: S608 # our own words
        " r.rules, r.length, r.sha256, r.issue_number, r.policy_bundle_id, r.steps,"
        " coalesce(f.done, 0), r.problem from json_each(?) asked"
        " left join places p on p.key = asked.value"
        " join cursors c on c.key = coalesce(p.session_key, asked.value) and c.phase = 'open'"
        " join sessions s on s.key = c.session_key and s.status = 'running' and s.origin = 'live'"
        " left join replays r on r.session_key = s.key and r.attempt = s.attempt"
        f" left join {PROGRESS} f on f.session_key = s.key",
        (listed(places),),
    )
    replays = []
    for place, key, session_id, layout, path, attempt, state, rules, *grown, actions, problem in rows:
        begun = None if rules is None else _begun(rules, *grown)
        why = None if problem is None else str(problem)
        replays.append(
            RunningReplay(
                str(place),
                str(key),
                str(session_id),
                str(layout),
                str(path),
                as_int(attempt),
                stored_text(state),
                begun,
                as_int(actions),
                why,
            )
        )
    return replays


async def replay_lengths(store: Store, keys: Iterable[str]) -> dict[tuple[str, int], int]:
    """The recorded lengths of these sessions' replays, in bytes."""
    rows = await store.read(
        "select session_key, attempt, length from replays where session_key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {(str(key), as_int(attempt)): as_int(length) for key, attempt, length in rows}


def grown_row(key: str, attempt: int, begun: BegunReplay, problem: str | None) -> Row:
    """The row for `GROW`."""
    grown = begun.grown
    return (
        key,
        attempt,
        as_json(begun.rules),
        grown.issue_number,
        grown.policy_bundle_id,
        stored_json(grown.steps).decode(),
        grown.length,
        grown.sha256,
        problem,
    )


async def begun_replays(
    store: Store, attempts: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], BegunReplay]:
    """What was shown of the replays of these attempts, by session key and attempt."""
    rows = await store.read(
        "select r.session_key, r.attempt, r.rules, r.length, r.sha256, r.issue_number, r.policy_bundle_id, r.steps"
        " from json_each(?) asked join replays r on r.session_key = asked.value ->> 0 and r.attempt = asked.value ->> 1",
        (listed(attempts),),
    )
    return {(str(key), as_int(attempt)): _begun(*row) for key, attempt, *row in rows}


def _begun(
    rules: object, length: object, sha256: object, issue: object, policy: object, steps: object
) -> BegunReplay:
    grown = Grown(
        as_int(length),
        str(sha256),
        None if issue is None else as_int(issue),
        None if policy is None else str(policy),
        tuple(Step(*each) for each in from_stored_json(str(steps))),
    )
    return BegunReplay(grown, _RULES.load(str(rules)))


REPLAYS: Final = Table(
    writes=(REPLAY_GONE,),
    answers={BegunReplayOf: answers_by(begun_replays, lambda asked: (asked.key, asked.attempt))},
    goes_with_session=("delete from replays where session_key = ?",),
)


INSERT_RECEIPT: Final = Write(
    "insert into receipts (session_key, attempt, receipt_hash, prev, directory, parts, facts, summary, problem,"
    " recorded_at, placed_at, place_problem) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

LOOKED_FOR: Final = "its parts are looked for after a restore"
"""The problem of a bundle whose parts were in place when the backup was made, until they were looked for."""

RECEIPT_PLACED: Final = (
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


async def receipts_head(store: Store) -> str | None:
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
    by_attempt = {(key, attempt): stretch_of(known.get(key, ()), attempt) for key, attempt in asked}
    return {each: stretch for each, stretch in by_attempt.items() if stretch is not None}


async def reported(store: Store, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Reported]:
    """The data for the summaries of these attempts, by session key and attempt."""
    rows = await store.read(
        "select s.key, asked.value ->> 1,"  # noqa: S608 # our own words
        " (select h.reason_summary from status_history h where h.session_key = s.key and h.attempt = asked.value ->> 1"
        "  order by h.id desc limit 1),"
        " (select json_group_array(a.summary) from artifacts a where a.session_key = s.key and a.summary is not null),"
        f" case when s.layout <> ? then json_extract(c.state, '{ABOUT}') end,"
        " (select json_extract(e.payload, '$.declaration.cwd') from events e where e.key = s.key || '#1/started')"
        " from json_each(?) asked join sessions s on s.key = asked.value ->> 0 left join cursors c on c.key = s.key",
        (NATIVE, listed(attempts)),
    )
    by_attempt: dict[tuple[str, int], Reported] = {}
    for key, attempt, reason, changes, about, declared in rows:
        cwd, _, _, given, made = (None,) * 5 if about is None else from_stored_json(str(about))
        by_attempt[str(key), as_int(attempt)] = Reported(
            "" if reason is None else str(reason),
            tuple(str(each) for each in from_stored_json(str(changes)) if each),
            None if given is None or made is None else (int(given), int(made)),
            next((each for each in (cwd, declared) if isinstance(each, str)), None),
        )
    return by_attempt


def _record(batch: Batch, job: Job, effect: RecordReceipt) -> None:
    order, sealed = effect.order, effect.sealed
    parts: tuple[Part, ...] = ()
    if effect.draft is not None:
        assert sealed is not None, "a receipt is recorded once it names the one before it"
        parts = (*effect.draft.parts, sealed.part)
    batch.row(
        INSERT_RECEIPT,
        (
            order.key,
            order.attempt,
            None if sealed is None else sealed.receipt_hash,
            None if sealed is None else sealed.prev,
            order.directory,
            stored_json(parts).decode(),
            dump_order(order),
            None if effect.draft is None else effect.draft.summary,
            effect.problem,
            batch.now,
            batch.now if sealed is None else None,
            None,
        ),
    )
    if order.grown is not None:
        batch.row(REPLAY_GONE, (order.key, order.attempt))


RECEIPTS: Final = Table(
    writes=(INSERT_RECEIPT,),
    appliers={RecordReceipt: _record},
    answers={
        StretchOf: answers_by(stretches, lambda asked: (asked.key, asked.attempt)),
        ReportedOf: answers_by(reported, lambda asked: (asked.key, asked.attempt), Reported()),
    },
)


INSERT_FILE: Final = Write(
    "insert into files (session_key, attempt, id, path, size, modified_ns, sha256, problem, hashed_at)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


async def produced_files(
    store: Store, attempts: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], ProducedFiles]:
    """What these attempts had produced when they were judged, by session key and attempt."""
    rows = await store.read(
        "select a.session_key, a.attempt, s.artifacts_path, s.path, a.produced from json_each(?) asked"
        " join attempts a on a.session_key = asked.value ->> 0 and a.attempt = asked.value ->> 1"
        " join sessions s on s.key = a.session_key where a.produced is not null",
        (listed(attempts),),
    )
    return {
        (str(key), as_int(attempt)): ProducedFiles(
            str(artifacts_path), str(path), tuple(Produced(*each) for each in json.loads(str(text)))
        )
        for key, attempt, artifacts_path, path, text in rows
    }


def _record_files(batch: Batch, job: Job, effect: RecordFiles) -> None:
    for each in effect.files:
        batch.row(INSERT_FILE, (effect.key, effect.attempt, *each, batch.now))


FILES: Final = Table(
    writes=(INSERT_FILE,),
    appliers={RecordFiles: _record_files},
    answers={ProducedBy: answers_by(produced_files, lambda asked: (asked.key, asked.attempt))},
    goes_with_session=("delete from files where session_key = ?",),
)
