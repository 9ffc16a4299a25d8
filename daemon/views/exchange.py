"""The exchange as programs read it: artifacts, principals, the ledger, what was done, and why."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.tables.actions import ActionRow, WantedActions, action, as_json, latest_actions
from runward.daemon.store.tables.events import decisions_about
from runward.daemon.store.tables.ledger import LedgerRow
from runward.daemon.store.tables.principals import PrincipalRow, cpu_used, principals
from runward.daemon.store.tables.shared_artifacts import broken_dependencies, shared_artifact
from runward.daemon.views.causes import Entry
from runward.daemon.views.text import fields
from runward.handlers.exchange.artifacts import metadata_of
from runward.handlers.exchange.genesis import METHODS, genesis_artifact
from runward.handlers.exchange.intent import without_content
from runward.handlers.model.exchange import MILLIONTHS, SCRIP, SharedArtifact
from runward.handlers.subjects import PRINCIPAL
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.views.why import Story

_SCHEMAS: Final = ("inputSchema", "outputSchema")
_DIALECT: Final = "$schema"
_DIALECTS: Final = (
    *(f"http://json-schema.org/draft-0{number}/schema" for number in (4, 6, 7)),
    *(f"https://json-schema.org/draft/{name}/schema" for name in ("2019-09", "2020-12")),
)
"""Known ones: for another, the library would ask the network."""


def interface_problems(interface: JsonValue) -> list[str]:
    """What is wrong, each with its place. An interface is foreign: it may be anything."""
    return [f"{place}: {why}" for place, part in _parts(interface) if (why := _why_no_schema(part))]


def _parts(interface: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if not isinstance(interface, dict):
        return
    if _DIALECT in interface:
        yield "interface", interface
    yield from ((name, interface[name]) for name in _SCHEMAS if name in interface)
    methods = interface.get("methods")
    for number, method in enumerate(methods if isinstance(methods, list) else ()):
        if isinstance(method, dict):
            yield from ((f"methods[{number}].{name}", method[name]) for name in _SCHEMAS if name in method)


def _why_no_schema(part: JsonValue) -> str | None:
    if not isinstance(part, dict | bool):
        return "is not a JSON Schema: it is neither an object, nor true or false"
    import jsonschema_rs  # few artifacts have schemas

    dialect = part.get(_DIALECT) if isinstance(part, dict) else None
    if dialect is not None and (not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS):
        return f"{_DIALECT} names no known version of JSON Schema"
    try:
        jsonschema_rs.meta.validate(part)
    except jsonschema_rs.ValidationError as error:
        where = "/".join(str(each) for each in error.instance_path)
        return f"is not a JSON Schema: {f'{where}: ' if where else ''}{error.message}"
    return None


def artifact_with_id(connection: sqlite3.Connection, identifier: str) -> SharedArtifact | None:
    """The artifact with this id: also a genesis artifact, or one that was deleted."""
    return genesis_artifact(identifier) or shared_artifact(connection, identifier)


def listed_artifact(connection: sqlite3.Connection, artifact: SharedArtifact) -> dict[str, JsonValue]:
    """An artifact as everyone may see it: without content and code, which only a read returns."""
    methods: list[JsonValue] = [*sorted(METHODS.get(artifact.id, {}))]
    return {
        **metadata_of(artifact),
        "genesis_methods": methods or None,
        "broken_dependencies": [*broken_dependencies(connection, artifact)],
        "is_principal": artifact.has_standing,
        "is_agent": artifact.has_standing and artifact.can_execute,
    }


def shown_artifact(connection: sqlite3.Connection, artifact: SharedArtifact) -> dict[str, JsonValue]:
    """An artifact as everyone may see it, and what is wrong with its interface."""
    return {
        **listed_artifact(connection, artifact),
        "interface_problems": [*interface_problems(artifact.interface)],
    }


def shown_principal(
    connection: sqlite3.Connection, row: PrincipalRow, settings: Settings
) -> dict[str, JsonValue]:
    """A principal, with what it used of its quotas."""
    window = settings.exchange.cpu_window
    resources: dict[str, JsonValue] = {name: amount / MILLIONTHS for name, amount in row.resources.items()}
    used = cpu_used(connection, row.id, time.time() - window)
    return {
        **fields(row, "id is_agent scrip"),
        "resources": resources,
        "disk": {"used": row.disk_used, "quota": row.disk_quota},
        "cpu": {"used_s": round(used, 6), "per_window_s": row.cpu_seconds, "window_s": window},
        "users": list(row.users),
        "artifacts": list(row.artifacts),
    }


def ledger_as_json(rows: Sequence[LedgerRow]) -> list[JsonValue]:
    """Entries of the ledger."""
    return [
        {
            "seq": each.seq,
            "ts": iso(each.at),
            "action": each.action,
            "from": each.giver,
            "to": each.taker,
            "resource": each.resource,
            "amount": each.amount if each.resource == SCRIP else each.amount / MILLIONTHS,
            "reason": each.reason,
        }
        for each in rows
    ]


def result_of(row: ActionRow) -> dict[str, JsonValue]:
    """The ActionResult."""
    result = as_json(row.result)
    assert isinstance(result, dict)
    return result


def shown_result(row: ActionRow) -> dict[str, JsonValue]:
    """The ActionResult as others see it."""
    result = without_content(result_of(row))
    assert isinstance(result, dict)
    return result


def action_as_json(row: ActionRow) -> dict[str, JsonValue]:
    """An action as `results.jsonl` has it, with its session, but without content and code: those who paid have them there."""
    intent = as_json(row.intent)
    return {
        "ts": iso(row.at),
        "line": row.line,
        "id": intent.get("id") if isinstance(intent, dict) else None,
        "intent": without_content(intent),
        "result": shown_result(row),
        **fields(row, "scrip_after sandbox hash session_key"),
        "principal_id": row.principal,
        "action": row.key,
    }


ARTIFACT: Final = "artifact:"

_NEWEST: Final = 50
"""Actions that are told."""


class _Standing(NamedTuple):
    """What a thing of the exchange is now, and what was done with it."""

    identifier: str
    state: str
    headline: str
    entries: list[Entry]


def exchange_story(connection: sqlite3.Connection, text: str) -> "Story | None":
    """What there is to say about an artifact, a principal or an action; None if `text` names nothing there."""
    from runward.daemon.views.why import Story  # the commands of the exchange do without it

    if text.startswith(ARTIFACT):
        noun, standing = "artifact", _artifact(connection, text.removeprefix(ARTIFACT))
    elif text.startswith(PRINCIPAL):
        noun, standing = "principal", _principal(connection, text)
    else:
        noun, standing = "action", _action(connection, text)
    return None if standing is None else Story(noun, *standing)


def _action(connection: sqlite3.Connection, text: str) -> _Standing | None:
    row = action(connection, text)
    if row is None:
        return None
    state = "ok" if row.is_success else str(row.error_code)
    return _Standing(row.key, state, _summary(row), [_entry(row)])


def _artifact(connection: sqlite3.Connection, name: str) -> _Standing | None:
    artifact = shared_artifact(connection, name)
    taken = latest_actions(connection, WantedActions(artifact=name, limit=_NEWEST))
    if artifact is None and not taken:
        return None
    if artifact is None:
        state, headline = "missing", f"there is no artifact {name}"
    elif artifact.deleted_at is not None:
        state, headline = "deleted", f"deleted by {artifact.deleted_by}"
    else:
        state, headline = "shared", f"version {artifact.version}, owned by {artifact.owner_id}"
    return _Standing(name, state, headline, [_entry(each) for each in taken])


def _principal(connection: sqlite3.Connection, text: str) -> _Standing | None:
    name = text.removeprefix(PRINCIPAL)
    rows = principals(connection, name)
    decided = [
        Entry("decision", each.at, each.handler, each.summary, {"verdict": each.verdict})
        for each in decisions_about(connection, text)
    ]
    if not rows and not decided:
        return None
    taken = [_entry(each) for each in latest_actions(connection, WantedActions(name, limit=_NEWEST))]
    state, headline = "missing", f"there is no principal {name}"
    if rows:
        owned = len(rows[0].artifacts)
        headline = f"holds {rows[0].scrip} scrip and owns {owned} artifact{'' if owned == 1 else 's'}"
        state = "active"
    return _Standing(name, state, headline, sorted([*decided, *taken], key=lambda each: each.at))


def _entry(row: ActionRow) -> Entry:
    detail: dict[str, JsonValue] = {
        "action": row.key,
        "principal_id": row.principal,
        "success": row.is_success,
        "error_code": row.error_code,
    }
    intent = as_json(row.intent)
    reasoning = intent.get("reasoning") if isinstance(intent, dict) else None
    notes = (f"reasoning: {reasoning}",) if isinstance(reasoning, str) and reasoning else ()
    return Entry(
        kind="action",
        at=row.at,
        event=row.action_type or "intent",
        summary=_summary(row),
        detail=detail,
        notes=notes,
    )


def _summary(row: ActionRow) -> str:
    result = without_content(as_json(row.result))
    message = result.get("message") if isinstance(result, dict) else None
    failed = "" if row.is_success else f"{row.error_code}: "
    return f"{row.principal or 'a run without an agent'}: {failed}{message}"
