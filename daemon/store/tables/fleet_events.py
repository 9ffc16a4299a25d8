"""Events of this host that other hosts of the fleet accept, until the fleet's database has them."""

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
    from runward.handlers.model.fleet import PublishEvent

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


def table() -> Table:
    """What effects make of events that other hosts accept."""
    from runward.handlers.model.fleet import PublishEvent

    return Table(writes=(_TOO_OLD, _PUBLISH), appliers={PublishEvent: _publish})
