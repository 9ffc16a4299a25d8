"""The plays of shows, with the data from their `_meta.json`."""

from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.handlers.model.shows import RecordPlay

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

RECORD: Final = Write(
    "insert into plays (session_key, show, topic, name, status, agent, model, started_at, finished_at, depends_on, further,"
    " created_at, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?12, ?12) on conflict (session_key) do update"
    " set status = excluded.status, agent = excluded.agent, model = excluded.model, started_at = excluded.started_at,"
    " finished_at = excluded.finished_at, depends_on = excluded.depends_on, further = excluded.further,"
    " updated_at = excluded.updated_at"
)


def _record(batch: "Batch", job: Job, effect: RecordPlay) -> None:
    said = effect.meta
    depends_on = to_json(said.depends_on).decode()
    further = None if said.further is None else to_json(said.further).decode()
    times = (said.started_at, said.finished_at)
    whose = (effect.session_key, effect.show, effect.topic, effect.name)
    batch.row(RECORD, (*whose, said.status, said.agent, said.model, *times, depends_on, further, effect.at))


PLAYS: Final = Table(
    writes=(RECORD,),
    appliers={RecordPlay: _record},
    goes_with_session=("delete from plays where session_key = ?",),
)
