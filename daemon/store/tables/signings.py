"""Requested signatures of receipts: each is open until its result is known."""

from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.bundle import Scheme
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.values import as_int
from runward.handlers.model.bundle import SignReceipt

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into signings (event, session_key, attempt, scheme, said_by) values (?, ?, ?, ?, ?)"
)
SETTLED: Final = "update signings set settled_at = ?, signature = ?, part = ?, problem = ? where id = ? and settled_at is null"


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


def _owe(batch: "Batch", job: Job, effect: SignReceipt) -> None:
    batch.row(INSERT, (job.seq, effect.key, effect.attempt, effect.scheme, effect.said_by))


SIGNINGS: Final = Table(writes=(INSERT,), appliers={SignReceipt: _owe})
