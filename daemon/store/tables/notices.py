"""Notices: each is pending until it is delivered or given up."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.transaction import Row, as_float, as_int, listed
from runward.handlers.model.notices import NoticeStateOf, ResendNotice, SendNotice

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into notices (id, kind, subject, recipient, title, text, created_at, next_at, since)"
    " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?7) on conflict (id) do nothing",
    exact=False,
)

RESEND: Final = Write(
    "update notices set state = 'pending', settled_at = null, tries = 0, next_at = ?1, since = ?1 where id = ?2"
    " and state = 'dead'",
    exact=False,
)

SETTLE: Final = (
    "update notices set state = ?, settled_at = ?, tries = ?, error = ? where id = ? and state = 'pending'"
)
DELAY: Final = "update notices set next_at = ?, tries = ?, error = ? where id = ? and state = 'pending'"


class PendingNotice(NamedTuple):
    """A notice that must be delivered. Times are Unix seconds; `since` is when it was first due."""

    id: str
    kind: str
    subject: str
    recipient: str
    title: str
    text: str
    created_at: float
    tries: int
    next_at: float
    since: float


_COLUMNS: Final = ", ".join(PendingNotice._fields)


async def pending(store: Store, most: int) -> list[PendingNotice]:
    """The notices to deliver, earliest due first."""
    rows = await store.read(
        f"select {_COLUMNS} from notices where state = 'pending' order by next_at, id limit ?",  # noqa: S608 # our own words
        (most,),
    )
    return [
        PendingNotice(
            str(notice),
            str(kind),
            str(subject),
            str(recipient),
            str(title),
            str(text),
            as_float(created_at),
            as_int(tries),
            as_float(next_at),
            as_float(since),
        )
        for notice, kind, subject, recipient, title, text, created_at, tries, next_at, since in rows
    ]


async def states(store: Store, ids: Iterable[str]) -> dict[str, str]:
    """The state of each of these notices, by id."""
    rows = await store.read(
        "select id, state from notices where id in (select value from json_each(?))", (listed(ids),)
    )
    return {str(notice): str(state) for notice, state in rows}


def row_of(effect: SendNotice) -> Row:
    """The values of `INSERT`."""
    said = (effect.id, effect.kind, effect.subject, effect.recipient, effect.title, effect.text)
    return *said, effect.at


def _send(batch: "Batch", job: Job, effect: SendNotice) -> None:
    batch.row(INSERT, row_of(effect))


def _resend(batch: "Batch", job: Job, effect: ResendNotice) -> None:
    batch.row(RESEND, (effect.at, effect.id))


NOTICES: Final = Table(
    writes=(INSERT, RESEND),
    appliers={SendNotice: _send, ResendNotice: _resend},
    answers={NoticeStateOf: answers_by(states, lambda asked: asked.id)},
    moved_by_steps=("update notices set next_at = next_at + ?1, since = since + ?1 where state = 'pending'",),
)
