"""JSON that agents wrote, as text that a page can show: neither longer nor deeper than that."""

import json
from typing import Final

from runward.config.json_value import JsonValue

MOST: Final = 64 << 10
"""Characters of one text."""

_DEEPEST: Final = 16
_LEFT_OUT: Final = "…"


class Room:
    """How many characters a page still has for texts of one subject."""

    def __init__(self, most: int) -> None:
        self._left = most

    def text(self, value: JsonValue, indent: int | None = None) -> str:
        """A text as it is, or the JSON of another value; cut where there is no room left."""
        most = min(self._left, MOST)
        text = cut(value, most) if isinstance(value, str) else bounded_json(value, most, indent)
        self._left -= min(len(text), most)
        return text


def bounded_json(value: JsonValue, most: int = MOST, indent: int | None = 2) -> str:
    """The JSON of a value; what is nested too deeply or comes too late is left out."""
    encoder = json.JSONEncoder(ensure_ascii=False, indent=indent)
    parts: list[str] = []
    length = 0
    # Each level of indentation repeats itself on every line, so the whole text may be much longer than the value.
    for part in encoder.iterencode(_shallow(value, _DEEPEST)):
        parts.append(part)
        length += len(part)
        if length > most:
            break
    return cut("".join(parts), most)


def cut(text: str, most: int) -> str:
    """A text without what comes too late."""
    return text if len(text) <= most else text[:most] + _LEFT_OUT


def _shallow(value: JsonValue, levels: int) -> JsonValue:
    if not value or not isinstance(value, dict | list):
        return value
    if levels == 0:
        return _LEFT_OUT
    if isinstance(value, dict):
        return {key: _shallow(each, levels - 1) for key, each in value.items()}
    return [_shallow(each, levels - 1) for each in value]
