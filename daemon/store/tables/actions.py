"""The actions that were taken in the exchange, with their results."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading import LAST
from runward.daemon.store.rows import rows_of, select, value_of
from runward.daemon.store.tables.table import Table

if TYPE_CHECKING:  # most never use the exchange, and `status` and `why` ask whether anybody does
    from runward.handlers.model.exchange import RecordAction


class ActionRow(NamedTuple):
    """An action with its result, and the hash of the event that reports it; `intent` and `result` are JSON texts."""

    seq: int
    key: str
    at: float
    principal: str | None
    session_key: str | None
    line: int | None
    action_type: str | None
    artifact_id: str | None
    intent: str
    result: str
    is_success: bool
    error_code: str | None
    scrip_after: int | None
    sandbox: str | None
    hash: str | None


class WantedActions(NamedTuple):
    """Which actions are wanted: all those after the number `after` and before `before`, in order."""

    principal: str | None = None
    artifact: str | None = None
    since: float | None = None
    after: int = 0
    limit: int = -1
    before: int = LAST


_TOLD: Final = "(select t.hash from events t where t.key = a.told_in)"
"""The hash of the event that reports an action."""

_WANTED_ACTIONS: Final = {
    "principal": " and a.principal = :principal",
    "artifact": " and a.artifact_id = :artifact",
    "since": " and a.at >= :since",
}


def actions(connection: sqlite3.Connection, wanted: WantedActions) -> list[ActionRow]:
    """The actions that are wanted, oldest first."""
    return _actions(connection, wanted, "order by a.seq")


def latest_actions(connection: sqlite3.Connection, wanted: WantedActions) -> list[ActionRow]:
    """The newest `limit` of the actions that are wanted, oldest first."""
    return _actions(connection, wanted, "order by a.seq desc")[::-1]


def _actions(connection: sqlite3.Connection, wanted: WantedActions, order: str) -> list[ActionRow]:
    values = wanted._asdict()
    which = "".join(each for name, each in _WANTED_ACTIONS.items() if values[name] is not None)
    rest = f"from actions a where a.seq > :after and a.seq < :before{which} {order} limit :limit"
    return rows_of(ActionRow, connection.execute(select(ActionRow, rest, "a", hash=_TOLD), values))


def action(connection: sqlite3.Connection, key: str) -> ActionRow | None:
    """The action with this key."""
    seq = connection.execute("select seq from actions where key = ?", (key,)).fetchone()
    if seq is None:
        return None
    rows = actions(connection, WantedActions(after=seq[0] - 1, limit=1))
    return rows[0] if rows and rows[0].key == key else None


def held_job(connection: sqlite3.Connection, key: str) -> int | None:
    """The job for this intent, if it is held because Runward failed at it."""
    # An intent has one job. If that is held, nobody may wait for its result for ever.
    row = connection.execute(
        "select j.id from events e join jobs j on j.id between 32 * e.seq and 32 * e.seq + 31"
        " where e.key = ? and j.handler = 'exchange/act' and j.state = 'held'",
        (key,),
    ).fetchone()
    return value_of(int, row)


def actions_waiting(connection: sqlite3.Connection) -> int:
    """Intents that have no result yet."""
    # Each condition on the state names that of a partial index, because there are many done jobs.
    row = connection.execute(
        "select (select count(*) from jobs where state in ('waiting', 'held') and state = 'waiting'"
        "  and handler = 'exchange/act') + (select count(*) from jobs where state = 'running'"
        "  and handler = 'exchange/act')"
    ).fetchone()
    return value_of(int, row) or 0


def as_json(text: str) -> JsonValue:
    """The value of a JSON text that Runward wrote."""
    value: JsonValue = json.loads(text)
    return value


# An action has the number of the event that its intent made: so lists are in the order in which lines were read,
# however long the actions took.
RECORD_ACTION: Final = Write(
    "insert into actions (key, seq, at, principal, session_key, line, action_type, artifact_id, intent, result,"
    " is_success, error_code, scrip_after, sandbox, told_in) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _record(batch: Batch, job: Job, effect: RecordAction) -> None:
    batch.row(
        RECORD_ACTION,
        (
            effect.key,
            job.seq,
            effect.at,
            effect.principal,
            effect.session_key,
            effect.line,
            effect.action_type,
            effect.artifact_id,
            stored_json(effect.intent).decode(),
            stored_json(effect.result).decode(),
            effect.is_success,
            effect.error_code,
            effect.scrip_after,
            effect.sandbox,
            effect.told_in,
        ),
    )


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.exchange import RecordAction

    return Table(writes=(RECORD_ACTION,), appliers={RecordAction: _record})
