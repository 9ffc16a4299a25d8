"""The actions of the exchange with their results: one for each intent."""

from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.handlers.model.exchange import RecordAction

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

RECORD: Final = Write(
    "insert into actions (key, seq, at, principal, session_key, line, action_type, artifact_id, intent, result,"
    " is_success, error_code, scrip_after, sandbox) values (?1, (select seq from events where key = ?1), ?2, ?3, ?4, ?5, ?6, ?7,"
    " ?8, ?9, ?10, ?11, ?12, ?13)"
)


def _record(batch: "Batch", job: Job, effect: RecordAction) -> None:
    batch.row(
        RECORD,
        (
            effect.key,
            effect.at,
            effect.principal,
            effect.session_key,
            effect.line,
            effect.action_type,
            effect.artifact_id,
            to_json(effect.intent).decode(),
            to_json(effect.result).decode(),
            effect.is_success,
            effect.error_code,
            effect.scrip_after,
            effect.sandbox,
        ),
    )


ACTIONS: Final = Table(writes=(RECORD,), appliers={RecordAction: _record})
