"""What the hosts of a fleet have to do with each other: steps of this host that another one shall run, what this host did with orders
that it took, and its events that others accept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from runward.config.json_value import stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import columns, rows_of, select
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.fleet import (
        BeginTaken,
        CancelOrder,
        DeclineTaken,
        EndTaken,
        PlaceOrder,
        PublishEvent,
        SettleOrder,
        Taken,
        TakenOf,
    )

_PLACE: Final = Write(
    "insert into remote_steps (id, run, step, attempt, host, labels, skill, body, begin_within, placed_at, wanted)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'placed')"
)
_CANCEL: Final = Write(
    "update remote_steps set wanted = 'cancelled' where id = ? and wanted = 'placed'", exact=False
)
_SETTLE: Final = Write(
    "update remote_steps set wanted = 'settled' where id = ? and wanted <> 'settled'", exact=False
)


class RemoteStep(NamedTuple):
    """A step that another host shall run: `host`, or any that has all `labels` (a list, in JSON).

    `body` is JSON; `begin_within` are seconds from `placed_at` (Unix seconds) on.
    """

    id: str
    run: str
    step: int
    attempt: int
    host: str | None
    labels: str
    skill: str
    body: str
    begin_within: float | None
    placed_at: float
    wanted: str


def remote_steps(connection: sqlite3.Connection, ids: Sequence[str]) -> list[RemoteStep]:
    """Those of these orders that are not settled in the fleet's database."""
    query = select(RemoteStep, "from remote_steps where id in (select value from json_each(?)) order by id")
    return rows_of(RemoteStep, connection.execute(query, (listed(ids),)))


def is_anything_ordered(connection: sqlite3.Connection) -> bool:
    """Whether a step of this host shall run on another one, as far as is known here."""
    return (
        connection.execute("select 1 from remote_steps where wanted = 'placed' limit 1").fetchone()
        is not None
    )


def _place(batch: Batch, job: Job, effect: PlaceOrder) -> None:
    from runward.handlers.model.fleet import order_id

    wanted = (effect.host, listed(effect.labels))
    facts = (*wanted, effect.skill, stored_json(effect.body).decode(), effect.begin_within, effect.at)
    batch.row(_PLACE, (order_id(effect.of), *effect.of, *facts))


def _cancel(batch: Batch, job: Job, effect: CancelOrder) -> None:
    from runward.handlers.model.fleet import order_id

    batch.row(_CANCEL, (order_id(effect.of),))


def _settle(batch: Batch, job: Job, effect: SettleOrder) -> None:
    batch.row(_SETTLE, (effect.id,))


def placed() -> Table:
    """What effects make of the steps that another host shall run."""
    from runward.handlers.model.fleet import CancelOrder, PlaceOrder, SettleOrder

    return Table(
        writes=(_PLACE, _CANCEL, _SETTLE),
        appliers={PlaceOrder: _place, CancelOrder: _cancel, SettleOrder: _settle},
    )


# Each take is decided once: a second row of it, or a second end, undoes the transaction.
_BEGIN_TAKEN: Final = Write(
    "insert into orders_taken (origin, id, take, state, session_key, taken_at, depth) values (?, ?, ?, 'begun', ?, ?, ?)"
)
_DECLINE_TAKEN: Final = Write(
    "insert into orders_taken (origin, id, take, state, why, taken_at) values (?, ?, ?, 'declined', ?, ?)"
)
_END_TAKEN: Final = Write(
    "update orders_taken set state = 'ended', result = ?4 where origin = ?1 and id = ?2 and take = ?3 and state = 'begun'"
)
_FORGET: Final = (
    "delete from orders_taken where session_key = ? and not exists"
    " (select 1 from fleet_outbox o where o.kind = 'taken' and o.subject = json_array(origin, orders_taken.id, take))"
)
"""Unless its end is owed to the fleet."""


Take: TypeAlias = tuple[str, str, int]
"""A take of an order: its origin, its id, and its number."""

_THESE: Final = (
    "from json_each(?) k join orders_taken t on t.origin = k.value ->> 0 and t.id = k.value ->> 1"
    " and t.take = k.value ->> 2"
)


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


def orders_taken(connection: sqlite3.Connection, takes: Sequence[Take]) -> list[TakenOrder]:
    """What this host did with these takes, each an origin, an id and a number. The others are not known here yet."""
    query = f"select {columns(TakenOrder, 't')} {_THESE}"  # our own words
    return rows_of(TakenOrder, connection.execute(query, (listed(takes),)))


class OrderBehind(NamedTuple):
    """The order that a session of this host was begun for. `asked` is the JSON of what was ordered, if that is still recorded."""

    origin: str
    id: str
    taken_at: float
    asked: str | None


def order_behind(connection: sqlite3.Connection, session_key: str) -> OrderBehind:
    """The order of another host behind a session that has one."""
    query = select(
        OrderBehind,
        "from orders_taken t left join invocations i on i.session_key = t.session_key where t.session_key = ?",
        "t",
        asked="i.node_metadata",
    )
    (order,) = rows_of(OrderBehind, connection.execute(query, (session_key,)))
    return order


def all_remote_steps(connection: sqlite3.Connection) -> list[RemoteStep]:
    """All that are not settled in the fleet's database."""
    return rows_of(RemoteStep, connection.execute(select(RemoteStep, "from remote_steps order by id")))


def all_orders_taken(connection: sqlite3.Connection) -> list[TakenOrder]:
    """All that this host took, as far as they are recorded."""
    return rows_of(TakenOrder, connection.execute(select(TakenOrder, "from orders_taken order by taken_at")))


def has_taken(connection: sqlite3.Connection) -> bool:
    """Whether this host has taken an order that is recorded."""
    return connection.execute("select 1 from orders_taken limit 1").fetchone() is not None


def takes_to_decide(connection: sqlite3.Connection) -> list[Take]:
    """The takes that the daemon knows, and has not decided on."""
    return [
        (str(origin), str(order), int(take))
        for origin, order, take in connection.execute(
            "select e.payload ->> 'origin', e.payload ->> 'id', e.payload ->> 'take' from jobs j join events e on e.seq = j.event"
            " where j.state in ('waiting', 'running', 'held') and j.lane glob 'fleet:*' and e.type = 'RemoteStepOrdered'"
        )
    ]


def last_restore(connection: sqlite3.Connection) -> int:
    """The epoch of the last restore of this store; 0 if it never was."""
    ((epoch,),) = connection.execute("select coalesce(max(epoch), 0) from restores")
    return int(epoch)


def newest_event(connection: sqlite3.Connection) -> int:
    """The number of the newest event: it only grows, unless the store is replaced by an older one."""
    ((seq,),) = connection.execute("select coalesce(max(seq), 0) from events")
    return int(seq)


def takes_begun(connection: sqlite3.Connection) -> list[Take]:
    """The steps of other hosts that this host has begun and that are not over."""
    rows = connection.execute("select origin, id, take from orders_taken where state = 'begun'")
    return [(str(origin), str(order), int(take)) for origin, order, take in rows]


def takes_pruned(connection: sqlite3.Connection, takes: Sequence[Take]) -> set[Take]:
    """Those of these takes that this host began, and whose sessions are pruned: nothing else is known of them."""
    from runward.handlers.model.fleet import run_of_order

    names = {run_of_order(*take): take for take in takes}
    query = "select session_id from tombstones where session_id in (select value from json_each(?))"
    return {names[str(name)] for (name,) in connection.execute(query, (listed([*names]),))}


def _begin(batch: Batch, job: Job, effect: BeginTaken) -> None:
    batch.row(
        _BEGIN_TAKEN, (effect.origin, effect.id, effect.take, effect.session_key, effect.at, effect.depth)
    )


def _decline(batch: Batch, job: Job, effect: DeclineTaken) -> None:
    batch.row(_DECLINE_TAKEN, (effect.origin, effect.id, effect.take, effect.why, effect.at))


def _end(batch: Batch, job: Job, effect: EndTaken) -> None:
    batch.row(_END_TAKEN, (effect.origin, effect.id, effect.take, stored_json(effect.result).decode()))


async def _by_session(store: Reader, keys: Iterable[str]) -> dict[str, Taken]:
    from runward.handlers.model.fleet import Taken

    query = select(Taken, "from orders_taken where session_key in (select value from json_each(?))")
    rows = rows_of(Taken, await store.read(query, (listed(keys),)))
    return {each.session_key: each for each in rows if each.session_key is not None}


async def _begun(store: Reader, orders: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bool]:
    asked = list(orders)
    rows = await store.read(
        "select t.origin, t.id from json_each(?) k join orders_taken t on t.origin = k.value ->> 0 and t.id = k.value ->> 1"
        " where t.state <> 'declined'",
        (listed(asked),),
    )
    begun = {(str(origin), str(order)) for origin, order in rows}
    return {each: True for each in asked if each in begun}


async def _by_take(store: Reader, takes: Iterable[Take]) -> dict[Take, Taken]:
    from runward.handlers.model.fleet import Taken

    query = f"select {columns(Taken, 't')} {_THESE}"  # our own words
    rows = rows_of(Taken, await store.read(query, (listed(takes),)))
    return {(each.origin, each.id, each.take): each for each in rows}


def taken() -> Table:
    """What effects make of the orders that this host took."""
    from runward.handlers.model.fleet import (
        BeginTaken,
        BegunBefore,
        DeclineTaken,
        EndTaken,
        TakenAs,
        TakenOf,
        taken_after,
    )

    def of(effect: BeginTaken | DeclineTaken | EndTaken) -> TakenOf:
        return TakenOf(effect.origin, effect.id, effect.take)

    return Table(
        writes=(_BEGIN_TAKEN, _DECLINE_TAKEN, _END_TAKEN),
        appliers={BeginTaken: _begin, DeclineTaken: _decline, EndTaken: _end},
        answers={
            BegunBefore: answers_by(_begun, lambda asked: (asked.origin, asked.id), absent=False),
            TakenAs: answers_by(_by_session, lambda asked: asked.session_key),
            TakenOf: answers_by(_by_take, lambda asked: (asked.origin, asked.id, asked.take)),
        },
        goes_with_session=(_FORGET,),
        folds={kind: (Fold(of, taken_after),) for kind in (BeginTaken, DeclineTaken, EndTaken)},
    )


KEPT_S: Final = 7 * 86_400.0
"""Seconds after which an event is of no use to other hosts: as long as the database keeps it."""

_TOO_OLD: Final = Write("delete from fleet_events where at < ?", exact=False)
# Decided again, an event is the same one.
_PUBLISH: Final = Write(
    "insert or ignore into fleet_events (key, at, name, id, fields, depth) values (?, ?, ?, ?, ?, ?)",
    exact=False,
)


class ToldEvent(NamedTuple):
    """An event that other hosts accept. `fields` are JSON, `at` is in Unix seconds."""

    key: str
    at: float
    name: str
    id: str
    fields: str
    depth: int


def told_events(connection: sqlite3.Connection, keys: Sequence[str]) -> list[ToldEvent]:
    """Those of these events that the fleet lacks, the oldest first."""
    query = select(
        ToldEvent, "from fleet_events where key in (select value from json_each(?)) order by rowid"
    )
    return rows_of(ToldEvent, connection.execute(query, (listed(keys),)))


def _publish(batch: Batch, job: Job, effect: PublishEvent) -> None:
    fields = stored_json(effect.fields).decode()
    batch.row(_TOO_OLD, (effect.at - KEPT_S,))
    batch.row(_PUBLISH, (effect.key, effect.at, effect.name, effect.id, fields, effect.depth))


def events_told() -> Table:
    """What effects make of events that other hosts accept."""
    from runward.handlers.model.fleet import PublishEvent

    return Table(writes=(_TOO_OLD, _PUBLISH), appliers={PublishEvent: _publish})
