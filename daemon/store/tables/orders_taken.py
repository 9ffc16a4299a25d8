"""What this host did with orders of other hosts that it took."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import columns, rows_of, select
from runward.daemon.store.tables.table import Fold, Table
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.fleet import BeginTaken, DeclineTaken, EndTaken, Taken, TakenAs, TakenOf

# Each take is decided once: a second row of it, or a second end, undoes the transaction.
_BEGIN: Final = Write(
    "insert into orders_taken (origin, id, take, state, session_key, taken_at) values (?, ?, ?, 'begun', ?, ?)"
)
_DECLINE: Final = Write(
    "insert into orders_taken (origin, id, take, state, why, taken_at) values (?, ?, ?, 'declined', ?, ?)"
)
_END: Final = Write(
    "update orders_taken set state = 'ended', result = ?4 where origin = ?1 and id = ?2 and take = ?3 and state = 'begun'"
)
_FORGET: Final = (
    "delete from orders_taken where session_key = ? and not exists"
    " (select 1 from fleet_outbox o where o.kind = 'taken' and o.subject = json_array(origin, orders_taken.id, take))"
)
"""Unless its end is owed to the fleet."""


class TakenOrder(NamedTuple):
    """An order that this host took. `result` is JSON."""

    origin: str
    id: str
    take: int
    state: str
    session_key: str | None
    why: str | None
    result: str | None
    taken_at: float


def orders_taken(connection: sqlite3.Connection, takes: Sequence[tuple[str, str, int]]) -> list[TakenOrder]:
    """What this host did with these takes, each an origin, an id and a number. The others are not known here yet."""
    query = (
        f"select {columns(TakenOrder, 't')} from json_each(?) k join orders_taken t on t.origin = k.value ->> 0"  # noqa: S608 # our own words
        " and t.id = k.value ->> 1 and t.take = k.value ->> 2"
    )
    return rows_of(TakenOrder, connection.execute(query, (listed(takes),)))


def how_many_begun(connection: sqlite3.Connection) -> int:
    """How many steps of other hosts this host has begun that are not over."""
    ((count,),) = connection.execute("select count(*) from orders_taken where state = 'begun'")
    return int(count)


def order_of_session(connection: sqlite3.Connection, session_key: str) -> TakenOrder | None:
    """The order that a session was begun for; None if no other host ordered it."""
    query = select(TakenOrder, "from orders_taken where session_key = ?")
    return next(iter(rows_of(TakenOrder, connection.execute(query, (session_key,)))), None)


def _begin(batch: Batch, job: Job, effect: BeginTaken) -> None:
    batch.row(_BEGIN, (effect.origin, effect.id, effect.take, effect.session_key, effect.at))


def _decline(batch: Batch, job: Job, effect: DeclineTaken) -> None:
    batch.row(_DECLINE, (effect.origin, effect.id, effect.take, effect.why, effect.at))


def _end(batch: Batch, job: Job, effect: EndTaken) -> None:
    batch.row(_END, (effect.origin, effect.id, effect.take, stored_json(effect.result).decode()))


async def _as(store: Reader, asked: Sequence[TakenAs], jobs: Sequence[Job]) -> dict[TakenAs, Taken | None]:
    from runward.handlers.model.fleet import Taken

    query = select(Taken, "from orders_taken where session_key in (select value from json_each(?))")
    rows = rows_of(Taken, await store.read(query, (listed({each.session_key for each in asked}),)))
    known = {each.session_key: each for each in rows}
    return {each: known.get(each.session_key) for each in asked}


async def _of(store: Reader, asked: Sequence[TakenOf], jobs: Sequence[Job]) -> dict[TakenOf, Taken | None]:
    from runward.handlers.model.fleet import Taken

    query = (
        f"select {columns(Taken, 't')} from json_each(?) k join orders_taken t on t.origin = k.value ->> 0"  # noqa: S608 # our own words
        " and t.id = k.value ->> 1 and t.take = k.value ->> 2"
    )
    takes = {(each.origin, each.id, each.take) for each in asked}
    rows = rows_of(Taken, await store.read(query, (listed(takes),)))
    known = {(each.origin, each.id, each.take): each for each in rows}
    return {each: known.get((each.origin, each.id, each.take)) for each in asked}


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.fleet import (
        BeginTaken,
        DeclineTaken,
        EndTaken,
        TakenAs,
        TakenOf,
        taken_after,
    )

    def of(effect: BeginTaken | DeclineTaken | EndTaken) -> TakenOf:
        return TakenOf(effect.origin, effect.id, effect.take)

    return Table(
        writes=(_BEGIN, _DECLINE, _END),
        appliers={BeginTaken: _begin, DeclineTaken: _decline, EndTaken: _end},
        answers={TakenAs: _as, TakenOf: _of},
        goes_with_session=(_FORGET,),
        folds={kind: (Fold(of, taken_after),) for kind in (BeginTaken, DeclineTaken, EndTaken)},
    )
