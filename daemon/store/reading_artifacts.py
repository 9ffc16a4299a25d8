"""Outcomes of sessions, as commands read them from the store."""

import json
import sqlite3
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue


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


class Wanted(NamedTuple):
    """Which outcomes are wanted. `passed` is `true`, `false`, `null`, or None for all; `limit` -1 for no limit."""

    kind: str | None = None
    passed: str | None = None
    session: str | None = None
    chain_run: str | None = None
    since: float | None = None
    limit: int = -1


_COLUMNS = ", ".join(ArtifactRow._fields)


def artifacts(connection: sqlite3.Connection, wanted: Wanted) -> list[ArtifactRow]:
    """The outcomes that are wanted, newest first."""
    rows = connection.execute(
        f"select {_COLUMNS} from artifacts where (?1 is null or kind = ?1) and (?3 is null or session_key = ?3)"  # noqa: S608 # our own words
        " and (?2 is null or case ?2 when 'null' then passed is null when 'true' then passed = 1 else passed = 0 end)"
        " and (?4 is null or session_key in (select session_key from chain_steps where run = ?4))"
        " and (?5 is null or updated_at >= ?5) order by updated_at desc, place desc, id limit ?6",
        tuple(wanted),
    )
    return [ArtifactRow(*row) for row in rows]


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
        f"select {_COLUMNS} from artifacts where invocation_id = ? order by updated_at, place",  # noqa: S608 # our own words
        (invocation,),
    )
    return [ArtifactRow(*row) for row in rows]


def is_decided(connection: sqlite3.Connection, request: str) -> bool:
    """Whether a request to add an artifact is decided."""
    row = connection.execute(
        "select j.state from events e join jobs j on j.id = 32 * e.seq where e.key = ?", (request,)
    ).fetchone()
    return row is not None and row[0] in ("done", "discarded")


def artifact_with(connection: sqlite3.Connection, identifier: str) -> ArtifactRow | None:
    """The outcome with this id."""
    row = connection.execute(f"select {_COLUMNS} from artifacts where id = ?", (identifier,)).fetchone()  # noqa: S608 # our own words
    return None if row is None else ArtifactRow(*row)


def artifacts_called(connection: sqlite3.Connection, text: str) -> list[ArtifactRow]:
    """The outcomes whose id begins with `text`."""
    rows = connection.execute(
        f"select {_COLUMNS} from artifacts where substr(id, 1, length(?1)) = ?1 order by id limit 9",  # noqa: S608 # our own words
        (text,),
    )
    return [ArtifactRow(*row) for row in rows]
