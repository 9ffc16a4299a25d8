"""The outcomes and the approvals that hosts reported. They may have written anything there: here each field has its type, or is missing."""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from psycopg import sql

from runward.config.json_value import JsonValue
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.store.tables.artifacts import ArtifactRow, Wanted
from runward.handlers.foreign_json import NotJson, parse_time, read_json
from runward.handlers.times import iso

_AT_ONCE: Final = 100
"""Rows that one statement reads: it has five seconds."""

_LONGEST: Final = 200
"""Characters of a value that rows are filtered by: the schema keeps no more."""


class FleetOutcome(NamedTuple):
    """An outcome of a session of a host, as that host's own list has it."""

    host: str
    row: ArtifactRow

    def as_json(self) -> JsonValue:
        return {"host": self.host, **self.row.as_json()}


class FleetApproval(NamedTuple):
    """A step of a host that waits for a person. Without a `command`, its host does not tell it. Times are Unix seconds."""

    host: str
    id: str
    chain: str
    step: str
    command: tuple[str, ...] | None
    asked_at: float
    body: dict[str, JsonValue]

    def as_json(self) -> JsonValue:
        return {"host": self.host, **self.body, "approval_id": self.id, "asked_at": iso(self.asked_at)}


_OUTCOMES: Final = {
    "hosts": "o.host = any(%(hosts)s)",
    "kind": "o.kind = %(kind)s",
    "passed": "o.body -> 'passed' = %(passed)s::jsonb",
    "session": "(starts_with(o.body ->> 'session_id', %(session)s) or o.body ->> 'session_key' = %(session)s)",
    "chain_run": "starts_with(o.chain_run, %(chain_run)s)",
    "since": "o.updated_at >= %(since)s",
    "at": "o.updated_at <= %(at)s and (o.updated_at < %(at)s or (o.host, o.id) > (%(host)s, %(id)s))",
}
"""By what is given."""


def outcomes(
    connection: Connection, wanted: Wanted, hosts: Sequence[str], most: int | None
) -> list[FleetOutcome]:
    """The outcomes that are wanted, of all hosts or of these: the newest, at most `most`. Raises `psycopg.Error`.

    Anything that is not an outcome is left out.
    """
    given: dict[str, Any] = {
        **wanted._asdict(),
        "kind": None if wanted.kind is None else wanted.kind[:_LONGEST],
        "hosts": [*hosts] or None,
        "at": None,
    }
    found: list[FleetOutcome] = []
    while count := _AT_ONCE if most is None else min(_AT_ONCE, most - len(found)):
        where = " and ".join(text for name, text in _OUTCOMES.items() if given[name] is not None) or "true"
        query = (
            "select o.host, o.id, o.updated_at, o.body::text from runward.outcomes o"  # noqa: S608 # our own words
            f" where {where} order by o.updated_at desc, o.host, o.id limit %(limit)s"
        )
        with in_time(connection):
            rows = connection.execute(sql.SQL(query), {**given, "limit": count}, prepare=False).fetchall()
        found += [FleetOutcome(host, row) for host, *facts in rows if (row := _outcome(*facts)) is not None]
        if len(rows) < count:
            break
        given["host"], given["id"], given["at"], _ = rows[-1]
    return found


def _outcome(identifier: str, updated_at: float, text: str) -> ArtifactRow | None:
    body = _object(text)
    key, kind, name = (_text(body, each) for each in ("session_key", "kind", "name"))
    if key is None or kind is None or name is None:
        return None
    passed, content, size = body.get("passed"), body.get("content"), body.get("file_size")
    return ArtifactRow(
        id=identifier,
        session_key=key,
        kind=kind,
        name=name,
        content=None if content is None else json.dumps(content),
        summary=_text(body, "summary"),
        passed=int(passed) if isinstance(passed, bool) else None,
        file_path=_text(body, "file_path"),
        created_at=parse_time(_text(body, "created_at")) or updated_at,
        updated_at=updated_at,
        names_file=0,
        file_sha256=_text(body, "file_sha256"),
        file_size=size if isinstance(size, int) and not isinstance(size, bool) else None,
        file_problem=_text(body, "file_problem"),
    )


_APPROVALS: Final = (
    "select a.host, a.id, a.asked_at, a.body::text from runward.approvals a"
    " where (%(hosts)s::text[] is null or a.host = any(%(hosts)s)) and (a.asked_at, a.host, a.id) > (%(at)s, %(host)s, %(id)s)"
    " order by a.asked_at, a.host, a.id limit %(limit)s"
)


def approvals(connection: Connection, hosts: Sequence[str]) -> list[FleetApproval]:
    """What waits for a person on any host, or on these, the oldest first. Raises `psycopg.Error`."""
    given: dict[str, Any] = {"hosts": [*hosts] or None, "at": -1.0, "host": "", "id": "", "limit": _AT_ONCE}
    found: list[FleetApproval] = []
    while True:
        with in_time(connection):
            rows = connection.execute(_APPROVALS, given, prepare=False).fetchall()
        found += [_approval(*row) for row in rows]
        if len(rows) < _AT_ONCE:
            return found
        given["host"], given["id"], given["at"], _ = rows[-1]


def _approval(host: str, identifier: str, asked_at: float, text: str) -> FleetApproval:
    body = _object(text)
    step, shown = body.get("step"), body.get("shown")
    argv = shown.get("argv") if isinstance(shown, dict) else None
    return FleetApproval(
        host=host,
        id=identifier,
        chain=_text(body, "chain") or "-",
        step=(_text(step, "id") if isinstance(step, dict) else None) or "-",
        command=tuple(map(str, argv)) if isinstance(argv, list) else None,
        asked_at=asked_at,
        body=body,
    )


def _object(text: str) -> dict[str, JsonValue]:
    value = read_json(text.encode())
    return value if isinstance(value, dict) and not isinstance(value, NotJson) else {}


def _text(body: dict[str, JsonValue], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) and value else None
