"""What attempts produced, and its hashes."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.values import as_int, listed
from runward.handlers.model.contracts import Produced, ProducedBy, ProducedFiles, RecordFiles

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into files (session_key, attempt, id, path, size, modified_ns, sha256, problem, hashed_at)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


async def produced(store: Store, attempts: Iterable[tuple[str, int]]) -> dict[tuple[str, int], ProducedFiles]:
    """What these attempts had produced when they were judged, by session key and attempt."""
    rows = await store.read(
        "select a.session_key, a.attempt, s.artifacts_path, s.path, a.produced from json_each(?) asked"
        " join attempts a on a.session_key = asked.value ->> 0 and a.attempt = asked.value ->> 1"
        " join sessions s on s.key = a.session_key where a.produced is not null",
        (listed(attempts),),
    )
    return {
        (str(key), as_int(attempt)): ProducedFiles(
            str(artifacts_path), str(path), tuple(Produced(*each) for each in json.loads(str(text)))
        )
        for key, attempt, artifacts_path, path, text in rows
    }


def _record_files(batch: "Batch", job: Job, effect: RecordFiles) -> None:
    for each in effect.files:
        batch.row(INSERT, (effect.key, effect.attempt, *each, batch.now))


FILES: Final = Table(
    writes=(INSERT,),
    appliers={RecordFiles: _record_files},
    answers={ProducedBy: answers_by(produced, lambda asked: (asked.key, asked.attempt))},
    goes_with_session=("delete from files where session_key = ?",),
)
