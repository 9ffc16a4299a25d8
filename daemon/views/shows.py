"""Shows and their plays, as programs read them."""

import json
from collections.abc import Sequence

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading_shows import PlayRow, ShowRow
from runward.daemon.views.text import iso
from runward.handlers.secrets import without_secrets_in


def listed_show(row: ShowRow) -> dict[str, JsonValue]:
    """A show, and how its plays stand."""
    return {
        "topic": row.topic,
        "path": row.path,
        "play_count": row.plays,
        "running": row.running,
        "passed": row.passed,
        "failed": row.failed,
        "created_at": iso(row.created_at),
    }


def whole_show(
    settings: Settings, row: ShowRow, plan: str | None, plays: Sequence[PlayRow]
) -> dict[str, JsonValue]:
    """A show with its plan and its plays, without what looks like a secret."""
    shown: dict[str, JsonValue] = {
        **listed_show(row),
        "plan": plan,
        "plays": [_play(each) for each in plays],
    }
    return without_secrets_in(shown, settings.bundle.rules.redact)


def _play(row: PlayRow) -> dict[str, JsonValue]:
    return {
        "name": row.name,
        "session_key": row.session_key,
        "status": row.session_status,
        "invocation_id": row.invocation_id,
        "depends_on": json.loads(row.depends_on),
        "meta": {
            "status": row.said_status,
            "agent": row.agent,
            "model": row.model,
            "started_at": None if row.started_at is None else iso(row.started_at),
            "finished_at": None if row.finished_at is None else iso(row.finished_at),
            "further": None if row.further is None else json.loads(row.further),
        },
        "gate": None
        if row.artifact_id is None
        else {
            "artifact_id": row.artifact_id,
            "passed": None if row.gate_passed is None else bool(row.gate_passed),
            "summary": row.gate_summary,
        },
    }
