"""Which values of a replay's line are not complete: what was redacted or cut, as the line itself names it."""

from runward.config.json_value import JsonValue
from runward.handlers.bundle.cutting import ELLIPSIS
from runward.handlers.secrets import REDACTED


def is_redacted(event: dict[str, JsonValue], key: str) -> bool:
    """Whether the line names something below `key` as redacted, and it really is."""
    named = event.get("redacted")
    return isinstance(named, list) and any(_stands(event, key, pointer, REDACTED) for pointer in named)


def is_cut(event: dict[str, JsonValue], key: str) -> bool:
    """Whether the line names a text below `key` as cut, and it really is."""
    named = event.get("cut")
    return isinstance(named, dict) and any(_stands(event, key, pointer, ELLIPSIS) for pointer in named)


def _stands(event: dict[str, JsonValue], key: str, pointer: JsonValue, mark: str) -> bool:
    """Whether a JSON Pointer leads from `key` to a text that contains the mark."""
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        return False
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    if parts[0] != key:
        return False
    value: JsonValue = event
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and len(part) < 10 and int(part) < len(value):
            value = value[int(part)]
        else:
            return False
    return isinstance(value, str) and mark in value
