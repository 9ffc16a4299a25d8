"""Outcomes of sessions, as programs read them; and what a contract expects, next to what became of it (ADR-0029, section 8).

Contract and verification come as the JSON that `--json` prints, so that a session of the store and a directory that is
verified now look alike.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.store.tables.artifacts import ArtifactRow
from runward.daemon.store.tables.events import decisions_about
from runward.handlers.secrets import json_without_secrets, text_without_secrets


def shown_outcomes(settings: Settings, rows: Sequence[ArtifactRow]) -> list[ArtifactRow]:
    """The outcomes as people may see them: without what looks like a secret."""

    def cleaned(text: str) -> str:
        return text_without_secrets(text, settings.bundle.rules.redact)

    return [
        row._replace(
            name=cleaned(row.name),
            summary=None if row.summary is None else cleaned(row.summary),
            content=None
            if row.content is None
            else json.dumps(json_without_secrets(json.loads(row.content), settings.bundle.rules.redact)),
        )
        for row in rows
    ]


def outcomes_as_json(settings: Settings, rows: Sequence[ArtifactRow]) -> list[JsonValue]:
    """What is known of outcomes, without what looks like a secret."""
    cleaned = json_without_secrets([each.as_json() for each in rows], settings.bundle.rules.redact)
    assert isinstance(cleaned, list)
    return cleaned


_FOR_THE_CONTRACT: Final = "run.failed.missing_artifact"

State: TypeAlias = Literal["not yet", "delivered", "missing", "not delivered"]


class ExpectedArtifact(NamedTuple):
    """An entry of a contract. `size` is in bytes, None if unknown.

    `why` says why something is there and doesn't count, or which file nearly is the missing one.
    """

    id: str
    path: str
    is_required: bool
    description: str
    declared_by: str
    state: State
    size: int | None = None
    why: str = ""


def expected_artifacts(
    contract: JsonValue, verification: JsonValue, why: Mapping[str, str]
) -> list[ExpectedArtifact] | None:
    """The entries of a contract; None without a contract.

    `why` gives the reason, by path, why a file doesn't count as delivered, if that is known.
    """
    if not isinstance(contract, dict) or not isinstance(contract.get("expected"), list):
        return None
    sizes, missing = _sizes(verification), _missing(verification)
    return [_entry(each, sizes, missing, why) for each in objects(contract["expected"])]


def _entry(
    entry: Mapping[str, JsonValue],
    sizes: Mapping[str, int] | None,
    missing: frozenset[str],
    why: Mapping[str, str],
) -> ExpectedArtifact:
    path = _path(entry)
    entry_now = ExpectedArtifact(
        id=str(entry["id"]),
        path=path,
        is_required=bool(entry["required"]),
        description=str(entry["description"] or ""),
        declared_by=str(entry["source"]),
        state="not yet",
    )
    if sizes is None:
        return entry_now
    if entry_now.id not in missing:
        return entry_now._replace(state="delivered", size=sizes.get(entry_now.id))
    reason = why.get(path, "absent")
    absent, _, near = reason.partition("; ")
    if absent == "absent":
        return entry_now._replace(state="missing", why=near)
    return entry_now._replace(state="not delivered", why=reason)


def not_delivered(connection: sqlite3.Connection, key: str) -> dict[str, str]:
    """Why each artifact that the last verification missed didn't count, by path, as the daemon saw it."""
    # The last verdict: a session that was resumed has one for each attempt.
    for decision in reversed(decisions_about(connection, key)):
        known: JsonValue = json.loads(decision.known) if decision.known else None
        reasons = known.get("not_delivered") if isinstance(known, dict) else None
        if isinstance(reasons, dict):
            return {path: str(why) for path, why in reasons.items()}
    return {}


def disagreement(status: str, reason_code: str, verification: JsonValue) -> str | None:
    """What to say if the status and the verification contradict each other (ADR-0029, section 7)."""
    if not isinstance(verification, dict) or status == "running" or reason_code == _FOR_THE_CONTRACT:
        return None
    verdict = verification["status"]
    if status == "completed":
        return "it completed, but optional artifacts are missing" if verdict == "warning" else None
    if verdict == "failed":
        missing_ones = objects(verification.get("missing_required"))
        missing = ", ".join(f"{each['id']} ({each['path']})" for each in missing_ones)
        return f"it {_ENDED[status]} for another reason; it also did not deliver {missing or 'its artifacts'}"
    return f"it {_ENDED[status]}, although all required artifacts are there"


_ENDED = {
    "failed": "failed",
    "timed_out": "timed out",
    "aborted": "was aborted",
    "cancelled": "was cancelled",
}


def _sizes(verification: JsonValue) -> dict[str, int] | None:
    """What was produced, by id, with its size in bytes; None if nothing was verified yet."""
    if not isinstance(verification, dict):
        return None
    sizes: dict[str, int] = {}
    for each in objects(verification.get("produced")):
        if isinstance(each["size"], int):
            entry = str(each["id"]).partition(":")[0]  # the files of a glob are its entry's id and their path
            sizes[entry] = sizes.get(entry, 0) + each["size"]
    return sizes


def _missing(verification: JsonValue) -> frozenset[str]:
    """The ids of what was not delivered."""
    if not isinstance(verification, dict):
        return frozenset()
    lists = (objects(verification.get(name)) for name in ("missing_required", "missing_optional"))
    return frozenset(str(each["id"]) for missing in lists for each in missing)


def _path(entry: Mapping[str, JsonValue]) -> str:
    """Where the artifact is expected: its path, its glob, or the kind of outcome."""
    return str(entry.get("path") or entry.get("glob") or f"outcome:{entry.get('outcome_kind')}")
