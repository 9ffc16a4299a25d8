"""What was asked, known and decided or refused, for `runward why`."""

from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.handlers.model.effects import Explain

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into decisions (event, handler, subject, at, verdict, summary, known) values (?, ?, ?, ?, ?, ?, ?)"
)


def _explain(batch: "Batch", job: Job, effect: Explain) -> None:
    known = None if effect.known is None else to_json(effect.known).decode()
    row = (job.seq, job.handler, effect.subject, batch.now, effect.verdict, effect.summary, known)
    batch.row(INSERT, row)


DECISIONS: Final = Table(
    writes=(INSERT,),
    appliers={Explain: _explain},
    goes_with_session=(
        "delete from decisions where subject = ?",
        "delete from decisions where subject in (select 'start ' || name from starts where session_key = ?)",
    ),
    goes_with_chain_run=("delete from decisions where subject = ?",),
)
