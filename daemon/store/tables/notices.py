"""Notices to people outside: each is pending until it is delivered or given up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading import begins
from runward.daemon.store.rows import rows_of, select
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import Row, listed
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.notices import ResendNotice, SendNotice


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

# Both only while it is pending: what was settled meanwhile stays as it is.
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


async def pending(store: Reader, most: int) -> list[PendingNotice]:
    """The notices to deliver, earliest due first."""
    which = "from notices where state = 'pending' order by next_at, id limit ?"
    return rows_of(PendingNotice, await store.read(select(PendingNotice, which), (most,)))


async def states(store: Reader, ids: Iterable[str]) -> dict[str, str]:
    """The state of each of these notices, by id."""
    rows = await store.read(
        "select id, state from notices where id in (select value from json_each(?))", (listed(ids),)
    )
    return dict(rows_of(tuple[str, str], rows))


def inserted(effect: SendNotice) -> Row:
    """The values of `INSERT`."""
    facts = (effect.id, effect.kind, effect.subject, effect.recipient, effect.title, effect.text)
    return *facts, effect.at


def _send(batch: Batch, job: Job, effect: SendNotice) -> None:
    batch.row(INSERT, inserted(effect))


def _resend(batch: Batch, job: Job, effect: ResendNotice) -> None:
    batch.row(RESEND, (effect.at, effect.id))


class NoticeRow(NamedTuple):
    """A notice. Times are Unix seconds."""

    id: str
    kind: str
    subject: str
    recipient: str
    title: str
    text: str
    state: str
    created_at: float
    tries: int
    next_at: float
    error: str | None
    settled_at: float | None

    def as_json(self) -> JsonValue:
        """A notice as `notify list --json` prints it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "subject": self.subject,
            "recipient": self.recipient,
            "title": self.title,
            "text": self.text,
            "state": self.state,
            "created_at": iso(self.created_at),
            "tries": self.tries,
            "next_at": iso(self.next_at) if self.state == "pending" else None,
            "problem": self.error,
            "settled_at": None if self.settled_at is None else iso(self.settled_at),
        }


def notices(
    connection: sqlite3.Connection, state: str | None, limit: int, after: tuple[float, str] | None = None
) -> list[NoticeRow]:
    """The notices in this state, or all, before `after` (a time and an id), newest first; `limit` -1 for all."""
    at, key = after or (None, None)
    # A condition that is not needed is left out: with `or ? is null` SQLite would walk from the newest notice on.
    behind = "" if after is None else " and created_at <= :at and (created_at < :at or id > :key)"
    rows = connection.execute(
        select(
            NoticeRow,
            f"from notices where (:state is null or state = :state){behind}"
            " order by created_at desc, id limit :limit",
        ),
        {"state": state, "at": at, "key": key, "limit": limit},
    )
    return rows_of(NoticeRow, rows)


def notices_called(connection: sqlite3.Connection, text: str) -> list[NoticeRow]:
    """The notices whose id begins with `text`."""
    rows = connection.execute(
        select(NoticeRow, f"from notices where {begins('id')} order by id limit 9"), (text,)
    )
    return rows_of(NoticeRow, rows)


def notices_by_state(connection: sqlite3.Connection) -> dict[str, JsonValue]:
    """How many notices wait, and how many were given up."""
    return dict(
        connection.execute(
            "select 'pending', count(*) from notices where state = 'pending'"
            " union all select 'dead', count(*) from notices where state = 'dead'"
        ).fetchall()
    )


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.notices import NoticeStateOf, ResendNotice, SendNotice

    return Table(
        writes=(INSERT, RESEND),
        appliers={SendNotice: _send, ResendNotice: _resend},
        answers={NoticeStateOf: answers_by(states, lambda asked: asked.id)},
        moved_by_steps=(
            "update notices set next_at = next_at + ?1, since = since + ?1 where state = 'pending'",
        ),
    )
