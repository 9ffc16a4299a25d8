"""Packing as statements: finished sessions with no open work become one row each, and become rows again.

Packing changes nothing but the size of the store. The chain of events stays verifiable across packed rows, as it does
across pruned ones. A document keeps the hash before each of its stretches, so that they can be put back between
others."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from runward.daemon.store.packed_document import CHOSEN, COLUMNS, Document, insert, pack, select, unpack
from runward.daemon.store.rows import rows_of
from runward.daemon.store.tables.prunings import ASKED, ASKED_LATELY, NOTHING_OWED
from runward.daemon.store.transaction import Reader, Row, Statement, as_float, as_int, listed

_DELETE: Final = "delete from absent_events where last = ?"
_INSERT: Final = "insert into absent_events (last, first, hash) values (?, ?, ?)"


class Stretch(NamedTuple):
    """An unbroken run of events that were removed, with the hash of the last one."""

    last: int
    first: int
    hash: str


async def absent(store: Reader, events: Mapping[int, str]) -> list[Statement]:
    """Mark these events (numbers and hashes) as removed."""
    # The stretches around them may touch: only one that ends right before the first, lies between, or comes next.
    rows = await store.read(
        "select last, first, hash from absent_events where last between ?1 - 1 and ?2"
        " union all select * from (select last, first, hash from absent_events where last > ?2 order by last limit 1)",
        (min(events), max(events)),
    )
    before = set(rows_of(Stretch, rows))
    after = merged([*before, *(Stretch(seq, seq, digest) for seq, digest in events.items())])
    return _changed(before, set(after))


async def present(store: Reader, events: Iterable[int], before: Mapping[int, str]) -> list[Statement]:
    """Mark these events as present again. `before` has the hash of the event before each, if that one isn't present."""
    numbers = sorted(events)
    rows = await store.read(
        "select distinct g.last, g.first, g.hash from json_each(?) k join absent_events g"
        " on g.last = (select min(last) from absent_events where last >= k.value)",
        (listed(numbers),),
    )
    known = set(rows_of(Stretch, rows))
    left = set()
    # What comes back cuts its stretch in two. The part before it needs a hash to end with, which only the document has.
    for stretch in known:
        first = stretch.first
        for seq in (each for each in numbers if stretch.first <= each <= stretch.last):
            if first < seq:
                left.add(Stretch(seq - 1, first, before[seq]))
            first = seq + 1
        if first <= stretch.last:
            left.add(stretch._replace(first=first))
    return _changed(known, left)


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches, with touching ones merged."""
    stretches_merged: list[Stretch] = []
    for each in sorted(stretches, key=lambda stretch: stretch.first):
        if stretches_merged and stretches_merged[-1].last + 1 == each.first:
            each = each._replace(first=stretches_merged.pop().first)
        stretches_merged.append(each)
    return stretches_merged


def _changed(before: set[Stretch], after: set[Stretch]) -> list[Statement]:
    return [
        Statement(_DELETE, [(each.last,) for each in sorted(before - after)]),
        Statement(_INSERT, sorted(after - before)),
    ]


SETTLED: Final = (
    "not exists (select 1 from events e cross join journal_lines l on l.id between 256 * e.seq and 256 * e.seq + 255"
    " where e.key > s.key || '#' and e.key < s.key || '$' and e.lane = s.key"
    " and l.id > (select settled from daemon))"
)
"""Whether no crash can undo anything in the journals of a session `s`.

The join is a `cross join`, which SQLite carries out as it is written. Otherwise it makes an index of all events for each session.
"""

_CANDIDATES: Final = (
    f"select s.key, s.finished_at, s.rowid, s.evidence_refs, s.artifact_verification_json, {NOTHING_OWED} and {SETTLED}"  # noqa: S608 # our own words
    " from sessions s indexed by sessions_unpacked where s.packed = 0 and s.finished_at is not null"
    " and s.finished_at < ?1 and (s.finished_at, s.rowid) > (?3, ?4) order by s.finished_at, s.rowid limit ?5"
)
_HOOKS: Final = " and t.type = 'HookSpoke'"
_BEFORE: Final = (
    "select k.value, coalesce(p.hash, g.hash) from json_each(?) k left join events p on p.seq = k.value - 1"
    " left join absent_events g on g.last = k.value - 1"
)
_PACKED: Final = "insert into packed (session_key, recorded_at, document) values (?, ?, ?)"
_SLIM: Final = (
    "update sessions set packed = 1, evidence_refs = '[]', artifact_verification_json = null"
    " where key = ? and packed = 0 and status <> 'running'"
)
_OF_SESSIONS: Final = (
    "delete from files where session_key = ?",
    "delete from status_history where session_key = ?",
    "delete from decisions where subject = ?",
    "delete from attempts where session_key = ?",
)
_OF_EVENTS: Final = (
    "delete from starts where event = ?1",  # also events of the next step of a chain run that is over
    "delete from journal_lines where id between 256 * ?1 and 256 * ?1 + 255",
    "delete from jobs where id between 32 * ?1 and 32 * ?1 + 31",
    "delete from events where seq = ?1",
)
_FULL: Final = "update sessions set packed = 0, evidence_refs = ?, artifact_verification_json = ? where key = ? and packed = 1"
_UNPACKED: Final = "delete from packed where session_key = ?"


class PackPlace(NamedTuple):
    """The position in the walk over unpacked sessions, in the order in which they ended."""

    finished_at: float
    row: int


FIRST_TO_PACK: Final = PackPlace(float("-inf"), 0)


P = TypeVar("P")


class Slice(NamedTuple, Generic[P]):
    """What one transaction does of a walk over old rows, and the walk's position after it; None after the last one.

    `keys` are the sessions that it is about, if it is about sessions.
    """

    statements: Sequence[Statement]
    place: P | None
    keys: Sequence[str] = ()


async def sessions_to_pack(
    store: Reader, place: PackPlace, before: float, most: int, now: float
) -> Slice[PackPlace]:
    """The next slice of the walk over unpacked sessions that ended before a moment (both Unix seconds)."""
    candidates = await store.read(_CANDIDATES, (before, now - ASKED_LATELY, *place, most))
    if not candidates:
        return Slice((), None)
    last = PackPlace(as_float(candidates[-1][1]), as_int(candidates[-1][2]))
    packable = {str(row[0]): (str(row[3]), row[4]) for row in candidates if row[5]}
    documents = await _documents(store, packable) if packable else {}
    if not documents:
        return Slice((), last)
    events = {seq: digest for each in documents.values() for seq, digest in each.events.items()}
    rows: list[Row] = [(key,) for key in documents]
    numbers: list[Row] = [(seq,) for seq in sorted(events)]
    statements = [
        # First the document, then the rows go: in one transaction, and the exact guards undo it if the session runs again.
        Statement(_PACKED, [(key, each.recorded_at, pack(each)) for key, each in documents.items()], True),
        Statement(_SLIM, rows, exact=True),
        *(Statement(sql, rows) for sql in _OF_SESSIONS),
        *(Statement(sql, numbers) for sql in _OF_EVENTS),
        *await absent(store, events),
    ]
    return Slice(statements, last, list(documents))


async def _documents(store: Reader, sessions: Mapping[str, tuple[str, object]]) -> dict[str, Document]:
    """The documents of these sessions, by key. Sessions that have no events are left out."""
    rows: dict[str, dict[str, list[Row]]] = defaultdict(lambda: {table: [] for table in COLUMNS})
    owners: dict[int, str] = {}
    keys = listed(sessions)
    for table, chosen in CHOSEN.items():
        question = (
            select(table, chosen).replace("{asked}", ASKED.replace("e.", "t.")).replace("{hooks}", _HOOKS)
        )
        by_event = "?2" in question
        values = (keys, listed([[seq] for seq in owners])) if by_event else (keys,)
        for first, *row in await store.read(question, values):
            if table == "events":
                owners[as_int(row[0])] = str(first)
            owner = owners[as_int(row[0]) // (32 if table == "jobs" else 256)] if by_event else str(first)
            rows[owner][table].append(tuple(row))
    # The hash before each stretch is kept with the document: its own row may be pruned before this is unpacked.
    starts = [seq for seq in owners if owners.get(seq - 1) != owners[seq] and seq > 1]
    hashes = rows_of(tuple[int, str | None], await store.read(_BEFORE, (listed(starts),)))
    # One is missing if a successor packed the events in between: then the epoch refuses what follows from this.
    before = {seq: digest for seq, digest in hashes if digest is not None}
    documents = {}
    for key, (evidence, verification) in sessions.items():
        own = {as_int(row[0]) for row in rows[key]["events"]}
        if own:
            text = None if verification is None else str(verification)
            documents[key] = Document(
                evidence, text, {seq: before[seq] for seq in own if seq in before}, rows[key]
            )
    return documents


async def packed_sessions(store: Reader, keys: Iterable[str]) -> dict[str, Document]:
    """Those of these sessions that are packed. Raises `ValueError` if one can't be read."""
    rows = await store.read(
        "select session_key, document from packed where session_key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {key: unpack(content) for key, content in rows_of(tuple[str, bytes], rows)}


async def unpacked(store: Reader, keys: Iterable[str]) -> list[Statement]:
    """Restore the rows of those of these sessions that are packed."""
    documents = await packed_sessions(store, keys)
    if not documents:
        return []
    rows: list[Row] = [(key,) for key in documents]
    before = {seq: digest for each in documents.values() for seq, digest in each.before.items()}
    events = [seq for each in documents.values() for seq in each.events]
    return [
        Statement(
            _FULL, [(each.evidence_refs, each.verification, key) for key, each in documents.items()], True
        ),
        Statement(_UNPACKED, rows, exact=True),
        *await present(store, events, before),
        *(
            Statement(insert(table), [row for each in documents.values() for row in each.rows[table]], True)
            for table in COLUMNS
        ),
    ]
