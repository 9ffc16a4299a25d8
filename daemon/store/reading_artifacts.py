"""Outcomes of sessions, as commands read them from the store."""

import json
import sqlite3
from typing import NamedTuple

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


def latest_outcome(connection: sqlite3.Connection, session_key: str) -> dict[str, JsonValue] | None:
    """The latest outcome of a registered kind that a session produced."""
    found = connection.execute(
        "select content from artifacts where is_known and session_key = ? order by updated_at desc, place desc limit 1",
        (session_key,),
    ).fetchone()
    content: JsonValue = None if found is None else json.loads(found[0])
    return content if isinstance(content, dict) else None


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


def artifacts_called(connection: sqlite3.Connection, text: str) -> list[ArtifactRow]:
    """The outcomes whose id begins with `text`."""
    rows = connection.execute(
        f"select {_COLUMNS} from artifacts where substr(id, 1, length(?1)) = ?1 order by id limit 9",  # noqa: S608 # our own words
        (text,),
    )
    return [ArtifactRow(*row) for row in rows]
