"""Outcomes of sessions: one row for each session, kind and name."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json, to_json

from runward.config.json_value import JsonValue
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.model.outcomes import (
    ArtifactFile,
    ArtifactFilesOf,
    LatestOutcomeOf,
    RecordArtifact,
    RecordArtifactFile,
    artifact_id,
)

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

LINK: Final = Write(
    "update artifacts set invocation_id = ? where session_key = ? and invocation_id is null", exact=False
)

RECORD: Final = Write(
    "insert into artifacts (id, session_key, kind, name, content, summary, passed, file_path, is_known, place, created_at,"
    " updated_at, is_provisional, names_file, invocation_id) values (?, ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?11, ?11, ?12, ?13,"
    " (select invocation_id from sessions where key = ?2)) on conflict (session_key, kind, name) do update"
    " set content = excluded.content, summary = excluded.summary, passed = excluded.passed,"
    " file_path = excluded.file_path, is_known = excluded.is_known, place = excluded.place, updated_at = excluded.updated_at,"
    " is_provisional = excluded.is_provisional, names_file = excluded.names_file,"
    " file_sha256 = null, file_size = null, file_problem = null"
)
RECORD_FILE: Final = Write(
    "update artifacts set file_sha256 = ?3, file_size = ?4, file_problem = ?5"
    " where id = ?1 and file_path = ?2 and names_file",
    exact=False,
)
"""If the artifact was recorded again with another file, that file is hashed separately."""


def _record(batch: "Batch", job: Job, effect: RecordArtifact) -> None:
    content = to_json(effect.content).decode()
    whose = (effect.session_key, effect.kind, effect.name)
    said = (content, effect.summary, effect.passed, effect.file_path, effect.is_known, effect.place)
    batch.row(
        RECORD, (artifact_id(*whose), *whose, *said, effect.at, effect.is_provisional, effect.names_file)
    )


def _record_file(batch: "Batch", job: Job, effect: RecordArtifactFile) -> None:
    size = None if effect.sha256 is None else effect.size
    batch.row(RECORD_FILE, (effect.artifact_id, effect.file_path, effect.sha256, size, effect.problem))


async def files(store: Store, sessions: Iterable[str]) -> dict[str, tuple[ArtifactFile, ...]]:
    """The artifacts of these sessions whose content is in files."""
    rows = await store.read(
        "select session_key, id, file_path from artifacts where names_file and session_key in (select value from json_each(?))"
        " order by id",
        (listed(sessions),),
    )
    found: dict[str, tuple[ArtifactFile, ...]] = {}
    for key, identifier, path in rows:
        found[str(key)] = (*found.get(str(key), ()), ArtifactFile(str(identifier), str(path)))
    return found


async def latest(store: Store, sessions: Iterable[str]) -> dict[str, dict[str, JsonValue]]:
    """The latest outcome of a registered kind from each of these sessions, among those that its verdict read."""
    rows = await store.read(
        "select session_key, content from artifacts where is_known and not is_provisional and session_key in (select value from json_each(?))"
        " order by updated_at, place",
        (listed(sessions),),
    )
    return {str(key): from_json(str(content)) for key, content in rows}


ARTIFACTS: Final = Table(
    writes=(LINK, RECORD, RECORD_FILE),
    appliers={RecordArtifact: _record, RecordArtifactFile: _record_file},
    answers={
        LatestOutcomeOf: answers_by(latest, lambda asked: asked.session_key),
        ArtifactFilesOf: answers_by(files, lambda asked: asked.session_key, ()),
    },
    goes_with_session=("delete from artifacts where session_key = ?",),
)
