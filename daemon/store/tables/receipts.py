"""The receipts of bundles, in the order of their chain, and their signatures."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import row_of, rows_of, select, value_of
from runward.daemon.store.tables.table import Table
from runward.daemon.store.transaction import listed
from runward.handlers.model.part import Part, load_parts

if TYPE_CHECKING:
    from runward.config.bundle import Scheme
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.bundle import RecordReceipt, SignReceipt


class BundleRow(NamedTuple):
    """A receipt as stored. `facts` and `summary` are JSON; without a `placed_at` its parts are not in place yet."""

    seq: int
    session_key: str
    attempt: int
    receipt_hash: str | None
    prev: str | None
    directory: str
    parts: tuple[Part, ...]
    facts: str
    summary: str | None
    problem: str | None
    placed_at: float | None
    place_problem: str | None


_SIGNED: Final = (
    "(select s.part from signings s where s.session_key = receipts.session_key and s.attempt = receipts.attempt"
    " and s.signature is not null order by s.id desc limit 1)"
)
"""The receipt's file as it was last signed, if somebody requested that."""


def bundle_of(connection: sqlite3.Connection, key: str, attempt: int) -> BundleRow | None:
    """What is recorded about the bundle of an attempt; None if nothing is."""
    return next(_bundles(connection, "where session_key = ? and attempt = ?", key, attempt), None)


def bundles_of_id(connection: sqlite3.Connection, session_id: str) -> list[BundleRow]:
    """What is recorded about the bundles of the sessions with this id, of all attempts."""
    which = "where session_key in (select key from sessions where session_id = ?) order by seq"
    return [*_bundles(connection, which, session_id)]


def bundle_in(connection: sqlite3.Connection, directory: str, attempt: int) -> BundleRow | None:
    """What is recorded about the bundle of an attempt whose parts were put into this directory."""
    which = "where directory = ? and attempt = ? order by seq desc limit 1"
    return next(_bundles(connection, which, directory, attempt), None)


def chain(connection: sqlite3.Connection) -> Iterator[BundleRow]:
    """Every row, in the order of the chain."""
    return _bundles(connection, "order by seq")


def _bundles(connection: sqlite3.Connection, which: str, *values: str | int) -> Iterator[BundleRow]:
    query = select(BundleRow, f"from receipts {which}", by=_SIGNED)
    # One after another: verifying the chain reads every receipt, and there may be a hundred thousand.
    for signed, *recorded in connection.execute(query, values):
        (bundle,) = rows_of(BundleRow, [tuple(recorded)])
        if signed is not None:
            # A later signature made the file of the receipt another one than the row says.
            (anew,) = load_parts(f"[{signed}]")
            bundle = bundle._replace(
                parts=tuple(anew if each.name == anew.name else each for each in bundle.parts)
            )
        yield bundle


def job_state(connection: sqlite3.Connection, key: str, attempt: int) -> str | None:
    """The state of the job that writes the bundle of this attempt; None if there is no such job."""
    row = connection.execute(
        "select j.state from events e join jobs j on j.event = e.seq"
        " where e.key = ? || '#' || ? || '/finished' and j.handler = 'bundle/write'",
        (key, attempt),
    ).fetchone()
    return value_of(str, row)


def finished_hash(connection: sqlite3.Connection, key: str, attempt: int) -> str | None:
    """The hash of the event of an attempt's verdict; None if its record is pruned."""
    row = connection.execute(
        "select hash from events where key = ? || '#' || ? || '/finished'", (key, attempt)
    ).fetchone()
    return value_of(str, row)


class ReceiptLink(NamedTuple):
    """A receipt in the chain."""

    number: int
    receipt_hash: str
    prev: str | None
    session_key: str
    attempt: int


def receipt_links(connection: sqlite3.Connection, after: int, most: int) -> list[ReceiptLink]:
    """The next receipts of the chain, at most this many."""
    query = select(
        ReceiptLink,
        "from receipts where seq > ? and receipt_hash is not null order by seq limit ?",
        number="seq",
    )
    return rows_of(ReceiptLink, connection.execute(query, (after, most)))


def chained_hashes(
    connection: sqlite3.Connection, after: int, most: int
) -> list[tuple[int, str, str | None]]:
    """The next receipts of the chain, at most this many: the number and the hash of each, and the hash before it."""
    # As they are read: verifying compares a hundred thousand of them.
    return connection.execute(
        "select seq, receipt_hash, prev from receipts where seq > ? and receipt_hash is not null order by seq limit ?",
        (after, most),
    ).fetchall()


def hash_of_receipt(connection: sqlite3.Connection, number: int) -> str | None:
    """The hash of a receipt; None if there is none of this number."""
    return value_of(
        str, connection.execute("select receipt_hash from receipts where seq = ?", (number,)).fetchone()
    )


def how_many_receipts(connection: sqlite3.Connection, after: int) -> int:
    """How many receipts the chain has behind this number."""
    row = connection.execute(
        "select count(*) from receipts where seq > ? and receipt_hash is not null", (after,)
    ).fetchone()
    return value_of(int, row) or 0


class SigningRow(NamedTuple):
    """The result of a request to sign a receipt: the signature or the problem, once it is settled."""

    is_settled: bool
    signature: str | None
    problem: str | None


def signing(connection: sqlite3.Connection, event: int) -> SigningRow | None:
    """The result of the request that was recorded as this event; None if it has led to no signing yet."""
    query = select(SigningRow, "from signings where event = ?", is_settled="settled_at is not null")
    return row_of(SigningRow, connection.execute(query, (event,)).fetchone())


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


async def owed_signings(store: Reader, after: int, most: int) -> list[OwedSigning]:
    """The receipts still to be signed after this number, oldest first, at most this many."""
    query = select(
        OwedSigning,
        "from signings s left join receipts r on r.session_key = s.session_key and r.attempt = s.attempt"
        " where s.settled_at is null and s.id > ? order by s.id limit ?",
        "s",
        key="s.session_key",
        directory="coalesce(r.directory, '')",
        receipt_hash="r.receipt_hash",
        is_coming="case when r.seq is null then exists ("
        "  select 1 from events e join jobs j on j.id between 32 * e.seq and 32 * e.seq + 31"
        "  where e.key = s.session_key || '#' || s.attempt || '/finished' and j.handler = 'bundle/write'"
        "  and j.state in ('waiting', 'running'))"
        " else r.receipt_hash is not null and r.placed_at is null end",
    )
    return rows_of(OwedSigning, await store.read(query, (after, most)), scheme=_scheme)


def _scheme(stored: str) -> Scheme:
    return "nostr" if stored == "nostr" else "ed25519"


def _owe(batch: Batch, job: Job, effect: SignReceipt) -> None:
    batch.row(INSERT_SIGNING, (job.seq, effect.key, effect.attempt, effect.scheme, effect.said_by))


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


async def receipts_head(store: Reader) -> str | None:
    """The hash of the last receipt in the chain; None if there is none."""
    rows = await store.read(
        "select receipt_hash from receipts where receipt_hash is not null order by seq desc limit 1"
    )
    return value_of(str, next(iter(rows), None))


async def unplaced(store: Reader, after: int, most: int, was_placed: bool = False) -> list[UnplacedBundle]:
    """The bundles after this number to put in place, oldest first, at most this many.

    With `was_placed`, those that were in place when the store was backed up, whose parts must be looked for.
    """
    query = select(
        UnplacedBundle,
        "from receipts where placed_at is null and seq > ? and (place_problem is not null) = ?"
        " order by seq limit ?",
        key="session_key",
    )
    return rows_of(UnplacedBundle, await store.read(query, (after, int(was_placed), most)))


async def own_places(store: Reader, keys: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """The directories in our own state with the bundles of these sessions, each with the names of its parts."""
    rows = await store.read(
        "select directory, parts from receipts where session_key in (select value from json_each(?))"
        " and directory not like '/%'",
        (listed(keys),),
    )
    return [
        (directory, tuple(part.name for part in parts))
        for directory, parts in rows_of(tuple[str, tuple[Part, ...]], rows)
    ]


def _record(batch: Batch, job: Job, effect: RecordReceipt) -> None:
    from runward.handlers.model.bundle import dump_order

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
        from runward.daemon.store.tables import replays

        batch.row(replays.GONE, (order.key, order.attempt))


def signings() -> Table:
    """What effects make of requests to sign."""
    from runward.handlers.model.bundle import SignReceipt

    return Table(writes=(INSERT_SIGNING,), appliers={SignReceipt: _owe})


def table() -> Table:
    """The same of receipts."""
    from runward.handlers.model.bundle import BundleOrder, RecordReceipt

    # Of the order only where it reads and writes: the rest is what the parts were rendered from.
    where = [BundleOrder._fields.index(name) for name in ("path", "directory")]
    places = ", ".join(f"'$[{place}]', moved(facts ->> '$[{place}]')" for place in where)
    move = f"update receipts set directory = moved(directory), facts = json_replace(facts, {places})"  # noqa: S608 # our own words
    return Table(
        writes=(INSERT_RECEIPT,),
        appliers={RecordReceipt: _record},
        moved=(move,),
    )
