"""Why an artifact or a principal of the exchange is the way it is, and the result of an action."""

import sqlite3

from runward.config.json_value import JsonValue
from runward.daemon.store.reading_causes import decisions_about
from runward.daemon.store.reading_exchange import (
    ActionRow,
    WantedActions,
    action,
    as_json,
    latest_actions,
    principals,
    shared_artifact,
)
from runward.daemon.views.why.causes import Entry
from runward.handlers.exchange.intent import without_content

ARTIFACT = "artifact:"
PRINCIPAL = "principal:"

_NEWEST = 50
"""Actions that are told."""


def exchange_story(
    connection: sqlite3.Connection, text: str
) -> tuple[str, str, str, str, list[Entry]] | None:
    """What `text` is, its id, its state, a headline, and the causes; None if it names nothing there."""
    if text.startswith(ARTIFACT):
        return _of_artifact(connection, text.removeprefix(ARTIFACT))
    if text.startswith(PRINCIPAL):
        return _of_principal(connection, text)
    row = action(connection, text)
    if row is None:
        return None
    state = "ok" if row.is_success else str(row.error_code)
    return "action", row.key, state, _said(row), [_entry(row)]


def _of_artifact(connection: sqlite3.Connection, name: str) -> tuple[str, str, str, str, list[Entry]] | None:
    found = shared_artifact(connection, name)
    taken = latest_actions(connection, WantedActions(artifact=name, limit=_NEWEST))
    if found is None and not taken:
        return None
    if found is None:
        state, headline = "missing", f"there is no artifact {name}"
    elif found.deleted_at is not None:
        state, headline = "deleted", f"deleted by {found.deleted_by}"
    else:
        state, headline = "shared", f"version {found.version}, owned by {found.owner_id}"
    return "artifact", name, state, headline, [_entry(each) for each in taken]


def _of_principal(connection: sqlite3.Connection, text: str) -> tuple[str, str, str, str, list[Entry]] | None:
    name = text.removeprefix(PRINCIPAL)
    found = principals(connection, name)
    decided = [
        Entry("decision", each.at, each.handler, each.summary, {"verdict": each.verdict})
        for each in decisions_about(connection, text)
    ]
    taken = [_entry(each) for each in latest_actions(connection, WantedActions(name, limit=_NEWEST))]
    if not found and not decided:
        return None
    state, headline = "missing", f"there is no principal {name}"
    if found:
        owned = len(found[0].artifacts)
        state, headline = (
            "active",
            f"holds {found[0].scrip} scrip and owns {owned} artifact{'' if owned == 1 else 's'}",
        )
    return "principal", name, state, headline, sorted([*decided, *taken], key=lambda each: each.at)


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
    return Entry("action", row.at, row.action_type or "intent", _said(row), detail, notes)


def _said(row: ActionRow) -> str:
    result = without_content(as_json(row.result))
    message = result.get("message") if isinstance(result, dict) else None
    failed = "" if row.is_success else f"{row.error_code}: "
    return f"{row.principal or 'a run without an agent'}: {failed}{message}"
