"""Outcomes of sessions, as programs read them."""

import json
from collections.abc import Sequence

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading_artifacts import ArtifactRow
from runward.daemon.views.units import iso
from runward.handlers.secrets import json_without_secrets, text_without_secrets


def artifact_as_json(row: ArtifactRow) -> dict[str, JsonValue]:
    """An outcome as programs read it."""
    return {
        "id": row.id,
        "session_id": row.session_key.rpartition("/")[2],
        "session_key": row.session_key,
        "kind": row.kind,
        "name": row.name,
        "summary": row.summary,
        "passed": None if row.passed is None else bool(row.passed),
        "content": None if row.content is None else json.loads(row.content),
        "file_path": row.file_path,
        "file_sha256": row.file_sha256,
        "file_size": row.file_size,
        "file_problem": row.file_problem,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def shown_outcomes(settings: Settings, rows: Sequence[ArtifactRow]) -> list[ArtifactRow]:
    """The outcomes as people may see them: without what looks like a secret."""

    def cleaned(text: str) -> str:
        return text_without_secrets(text, settings.bundle.redact)

    return [
        row._replace(
            name=cleaned(row.name),
            summary=None if row.summary is None else cleaned(row.summary),
            content=None
            if row.content is None
            else json.dumps(json_without_secrets(json.loads(row.content), settings.bundle.redact)),
        )
        for row in rows
    ]


def outcomes_as_json(settings: Settings, rows: Sequence[ArtifactRow]) -> list[JsonValue]:
    """What is known of outcomes, without what looks like a secret."""
    told = json_without_secrets([artifact_as_json(each) for each in rows], settings.bundle.redact)
    assert isinstance(told, list)
    return told
