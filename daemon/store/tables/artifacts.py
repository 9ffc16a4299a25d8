"""Outcomes of sessions: one row for each session, kind and name."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading import begins
from runward.daemon.store.rows import groups_of, row_of, rows_of, select
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.outcomes import (
        ArtifactFile,
        RecordArtifact,
        RecordArtifactFile,
    )


LINK: Final = Write(
    "update artifacts set invocation_id = ? where session_key = ? and invocation_id is null", exact=False
)

# An outcome of the same kind and name takes the place of the earlier one, and keeps its id and its first time: what
# refers to it stays valid. Its file is hashed again.
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


def _record(batch: Batch, job: Job, effect: RecordArtifact) -> None:
    from runward.handlers.model.outcomes import artifact_id

    content = stored_json(effect.content).decode()
    whose = (effect.session_key, effect.kind, effect.name)
    facts = (content, effect.summary, effect.passed, effect.file_path, effect.is_known, effect.place)
    batch.row(
        RECORD, (artifact_id(*whose), *whose, *facts, effect.at, effect.is_provisional, effect.names_file)
    )


def _record_file(batch: Batch, job: Job, effect: RecordArtifactFile) -> None:
    size = None if effect.sha256 is None else effect.size
    batch.row(RECORD_FILE, (effect.artifact_id, effect.file_path, effect.sha256, size, effect.problem))


async def files(store: Reader, sessions: Iterable[str]) -> dict[str, tuple[ArtifactFile, ...]]:
    """The artifacts of these sessions whose content is in files."""
    from runward.handlers.model.outcomes import ArtifactFile

    rows = await store.read(
        "select session_key, id, file_path from artifacts where names_file and session_key in (select value from json_each(?))"
        " order by id",
        (listed(sessions),),
    )
    return groups_of(ArtifactFile, rows)


async def latest(store: Reader, sessions: Iterable[str]) -> dict[str, dict[str, JsonValue]]:
    """The latest outcome of a registered kind from each of these sessions, among those that its verdict read."""
    rows = await store.read(
        "select session_key, content from artifacts where is_known and not is_provisional and session_key in (select value from json_each(?))"
        " order by updated_at, place",
        (listed(sessions),),
    )
    return dict(rows_of(tuple[str, dict[str, JsonValue]], rows))


class ArtifactRow(NamedTuple):
    """An outcome of a session. Times are Unix seconds; `content` is a JSON text, `passed` 0, 1 or None.

    With `names_file` its large content is at `file_path`. After that file was examined, its hash or a problem is there
    too.
    """

    id: str
    session_key: str
    kind: str
    name: str
    content: str | None
    summary: str | None
    passed: int | None
    file_path: str | None
    created_at: float
    updated_at: float
    names_file: int
    file_sha256: str | None
    file_size: int | None
    file_problem: str | None

    def as_json(self) -> dict[str, JsonValue]:
        """An outcome as programs read it."""
        return {
            "id": self.id,
            "session_id": self.session_key.rpartition("/")[2],
            "session_key": self.session_key,
            "kind": self.kind,
            "name": self.name,
            "summary": self.summary,
            "passed": None if self.passed is None else bool(self.passed),
            "content": None if self.content is None else json.loads(self.content),
            "file_path": self.file_path,
            "file_sha256": self.file_sha256,
            "file_size": self.file_size,
            "file_problem": self.file_problem,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


class Wanted(NamedTuple):
    """Which outcomes are wanted. `passed` is `true`, `false`, `null`, or None for all; `limit` -1 for no limit."""

    kind: str | None = None
    passed: str | None = None
    session: str | None = None
    chain_run: str | None = None
    since: float | None = None
    limit: int = -1


_NARROWING: Final = {
    "kind": " and kind = :kind",
    "session": " and session_key = :session",
    "chain_run": " and session_key in (select session_key from chain_steps where run = :chain_run)",
}
"""Conditions with an index. One that is not needed is left out: with `or ? is null` SQLite would read the whole table."""

_DECIDED: Final = (
    " and (:passed is null or case :passed when 'null' then passed is null when 'true' then passed = 1 else passed = 0 end)"
    " and (:since is null or updated_at >= :since)"
)


def artifacts(connection: sqlite3.Connection, wanted: Wanted) -> list[ArtifactRow]:
    """The outcomes that are wanted, newest first."""
    rows = connection.execute(
        select(
            ArtifactRow,
            f"from artifacts where true{_narrowed(wanted)}{_DECIDED}"
            " order by updated_at desc, place desc, id limit :limit",
        ),
        wanted._asdict(),
    )
    return rows_of(ArtifactRow, rows)


def artifacts_of_ids(
    connection: sqlite3.Connection, ids: Sequence[str]
) -> list[tuple[ArtifactRow, str | None]]:
    """These outcomes, each with the chain run whose step its session was."""
    rows = connection.execute(
        select(
            ArtifactRow,
            "from artifacts where id in (select value from json_each(?)) order by id",
            by="(select run from chain_steps c where c.session_key = artifacts.session_key limit 1)",
        ),
        (listed(ids),),
    ).fetchall()
    return [
        (each, run)
        for each, (run, *_) in zip(rows_of(ArtifactRow, [row[1:] for row in rows]), rows, strict=True)
    ]


def _narrowed(wanted: Wanted) -> str:
    return "".join(each for name, each in _NARROWING.items() if getattr(wanted, name) is not None)


MOST_READ: Final = 20_000
"""Outcomes that `newest_artifacts` looks at: what is asked of them stands behind their contents, 20 µs away."""


class Newest(NamedTuple):
    """A part of the outcomes that are wanted. `last` is the last one that was looked at (when it came, and its id), if
    there may be more; `is_searched` means that there was no end yet, but the look was long enough."""

    rows: list[ArtifactRow]
    last: tuple[float, str] | None = None
    is_searched: bool = False


def newest_artifacts(
    connection: sqlite3.Connection, wanted: Wanted, after: tuple[float, str] | None = None
) -> Newest:
    """The outcomes that are wanted and came before `after`: those that came last, in the order of `artifacts`.

    Only when an outcome first came has an index, so parts are cut by that; a later change of an outcome moves it within
    its part alone. A part never sorts the table, and looks at `MOST_READ` outcomes at most.
    """
    values = {**wanted._asdict(), "at": after and after[0], "id": after and after[1], "most": MOST_READ}
    before = "" if after is None else " and (created_at, id) < (:at, :id)"
    looked_at = f"from artifacts where true{_narrowed(wanted)}{before} order by created_at desc, id desc"
    which = f"from (select * {looked_at} limit :most) where true{_DECIDED} limit :limit + 1"
    found = connection.execute(select(ArtifactRow, which, by="place"), values).fetchall()
    rows = rows_of(ArtifactRow, (row[1:] for row in found))
    placed = [
        (-each.updated_at, -place, each.id, each) for (place, *_), each in zip(found, rows, strict=True)
    ]
    shown = [each for *_, each in sorted(placed[: wanted.limit])]
    if len(rows) > wanted.limit:
        last = rows[wanted.limit - 1]
        return Newest(shown, (last.created_at, last.id))
    end = connection.execute(f"select created_at, id {looked_at} limit 1 offset :most - 1", values).fetchone()
    return Newest(shown, end and (end[0], end[1]), end is not None)


def has_artifacts(connection: sqlite3.Connection) -> bool:
    """Whether there is an outcome."""
    return connection.execute("select 1 from artifacts limit 1").fetchone() is not None


OUTCOMES: Final = (
    "select session_key, content, total > ?2 from (select session_key, content, updated_at, place,"
    " sum(length(content)) over (partition by session_key) as total, row_number() over (partition by session_key"
    " order by updated_at desc, place desc) as newest from artifacts where is_known and (?3 or not is_provisional)"
    " and session_key in (select value from json_each(?1))) where total <= ?2 or newest = 1 order by updated_at, place"
)
"""The outcomes of registered kinds of sessions, oldest first: only the last one if they are longer than ?2 together."""


def outcomes_left(
    connection: sqlite3.Connection, session_key: str, longest: int
) -> tuple[list[dict[str, JsonValue]], bool]:
    """The outcomes of registered kinds that a session produced, oldest first.

    Only the last one if all together are longer than `longest` characters: then the second value is true.
    """
    rows = connection.execute(OUTCOMES, (json.dumps([session_key]), longest, True)).fetchall()
    return [json.loads(content) for _, content, _ in rows], any(is_cut for *_, is_cut in rows)


def artifacts_of(connection: sqlite3.Connection, invocation: str) -> list[ArtifactRow]:
    """The outcomes of an invocation, oldest first."""
    rows = connection.execute(
        select(ArtifactRow, "from artifacts where invocation_id = ? order by updated_at, place"),
        (invocation,),
    )
    return rows_of(ArtifactRow, rows)


def is_decided(connection: sqlite3.Connection, request: str) -> bool:
    """Whether a request to add an artifact is decided."""
    row = connection.execute(
        "select j.state from events e join jobs j on j.id = 32 * e.seq where e.key = ?", (request,)
    ).fetchone()
    return row is not None and row[0] in ("done", "discarded")


def artifact_with(connection: sqlite3.Connection, identifier: str) -> ArtifactRow | None:
    """The outcome with this id."""
    query = select(ArtifactRow, "from artifacts where id = ?")
    return row_of(ArtifactRow, connection.execute(query, (identifier,)).fetchone())


def artifacts_called(connection: sqlite3.Connection, text: str) -> list[ArtifactRow]:
    """The outcomes whose id begins with `text`."""
    rows = connection.execute(
        select(ArtifactRow, f"from artifacts where {begins('id')} order by id limit 9"), (text,)
    )
    return rows_of(ArtifactRow, rows)


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.outcomes import (
        ArtifactFilesOf,
        LatestOutcomeOf,
        RecordArtifact,
        RecordArtifactFile,
    )

    return Table(
        writes=(LINK, RECORD, RECORD_FILE),
        appliers={RecordArtifact: _record, RecordArtifactFile: _record_file},
        answers={
            LatestOutcomeOf: answers_by(latest, lambda asked: asked.session_key),
            ArtifactFilesOf: answers_by(files, lambda asked: asked.session_key, ()),
        },
        goes_with_session=("delete from artifacts where session_key = ?",),
    )
