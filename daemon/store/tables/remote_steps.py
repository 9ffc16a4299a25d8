"""Steps of chain runs that another host shall run: what the fleet's database shall have of each."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import rows_of, select
from runward.daemon.store.tables.table import Table
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:
    from runward.handlers.model.fleet import CancelOrder, PlaceOrder, SettleOrder

_PLACE: Final = Write(
    "insert into remote_steps (id, run, step, attempt, host, skill, body, begin_within, placed_at, wanted)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, 'placed')"
)
_CANCEL: Final = Write(
    "update remote_steps set wanted = 'cancelled' where id = ? and wanted = 'placed'", exact=False
)
_SETTLE: Final = Write(
    "update remote_steps set wanted = 'settled' where id = ? and wanted <> 'settled'", exact=False
)


class RemoteStep(NamedTuple):
    """A step that another host shall run. `body` is JSON; `begin_within` are seconds from `placed_at` (Unix seconds) on."""

    id: str
    run: str
    step: int
    attempt: int
    host: str
    skill: str
    body: str
    begin_within: float | None
    placed_at: float
    wanted: str


def remote_steps(connection: sqlite3.Connection, ids: Sequence[str]) -> list[RemoteStep]:
    """Those of these orders that are not settled in the fleet's database."""
    query = select(RemoteStep, "from remote_steps where id in (select value from json_each(?)) order by id")
    return rows_of(RemoteStep, connection.execute(query, (listed(ids),)))


def _place(batch: Batch, job: Job, effect: PlaceOrder) -> None:
    from runward.handlers.model.fleet import order_id

    facts = (effect.host, effect.skill, stored_json(effect.body).decode(), effect.begin_within, effect.at)
    batch.row(_PLACE, (order_id(effect.of), *effect.of, *facts))


def _cancel(batch: Batch, job: Job, effect: CancelOrder) -> None:
    from runward.handlers.model.fleet import order_id

    batch.row(_CANCEL, (order_id(effect.of),))


def _settle(batch: Batch, job: Job, effect: SettleOrder) -> None:
    batch.row(_SETTLE, (effect.id,))


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.fleet import CancelOrder, PlaceOrder, SettleOrder

    return Table(
        writes=(_PLACE, _CANCEL, _SETTLE),
        appliers={PlaceOrder: _place, CancelOrder: _cancel, SettleOrder: _settle},
    )
