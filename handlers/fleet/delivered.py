"""The artifacts of a step on another host, as they travel back: what the contract expected and was there. The files stay there."""

import re
from typing import Final

from runward.config.json_value import MAX_INTEGER, JsonValue

MOST_ARTIFACTS: Final = 100
_SHA256: Final = re.compile("[0-9a-f]{64}")
_MOST_TEXT: Final = 1 << 10
"""Characters of an id, and of a path."""


def told(verification: JsonValue) -> list[JsonValue]:
    """What is said of the artifacts that a session produced: the id, the path below its artifacts, and the bytes of each."""
    produced = verification.get("produced") if isinstance(verification, dict) else None
    if not isinstance(produced, list):
        return []
    return [
        {"id": each["id"], "path": each["path"], "size": each["size"]}
        for each in produced[:MOST_ARTIFACTS]
        if isinstance(each, dict) and _is_told(each)
    ]


def paths(artifacts: JsonValue) -> dict[str, str]:
    """By id, the path of each artifact that another host names, below the artifacts of its session there."""
    if not isinstance(artifacts, list):
        return {}
    return {
        str(each["id"]): str(each["path"])
        for each in artifacts[:MOST_ARTIFACTS]
        if isinstance(each, dict) and _is_told(each)
    }


def with_hashes(artifacts: JsonValue) -> list[dict[str, JsonValue]]:
    """The id, path, size and SHA-256 (hex, None if it is not known) of each artifact that another host names."""
    if not isinstance(artifacts, list):
        return []
    return [
        {**{name: each[name] for name in ("id", "path", "size")}, "sha256": _hash(each.get("sha256"))}
        for each in artifacts[:MOST_ARTIFACTS]
        if isinstance(each, dict) and _is_told(each)
    ]


def _hash(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and _SHA256.fullmatch(value) else None


def _is_told(entry: dict[str, JsonValue]) -> bool:
    size = entry.get("size")
    return (
        all(
            isinstance(text, str) and 0 < len(text) <= _MOST_TEXT
            for text in (entry.get("id"), entry.get("path"))
        )
        and isinstance(size, int)
        and not isinstance(size, bool)
        and 0 <= size <= MAX_INTEGER
    )
