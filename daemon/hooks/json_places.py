"""Where the values are in a JSON text, for edits that leave the rest as it is."""

import json
import re
from typing import Final, NamedTuple

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_SCALAR: Final = re.compile(r"[^\s,\]}]+")


# It scans a text that `json` has already accepted, so it looks for ends, not for mistakes.
class Span(NamedTuple):
    """A value from the offset `start` up to `end`; a member's `start` is that of its key, `key` is None in a list."""

    start: int
    end: int
    key: str | None
    value: int
    """Where the value begins."""
    items: tuple["Span", ...] = ()
    """The items of a list or an object, in the order of the text."""

    def members(self, key: str) -> list["Span"]:
        """The members with this key: more than one if the text has it twice."""
        return [item for item in self.items if item.key == key]


def json_places(text: str) -> Span:
    """The document's value with everything in it. Raises `RecursionError` if it is nested too deeply."""
    start = _skip(_BLANK, text, 0)
    return _value(text, start, start, None)


def _value(text: str, start: int, at: int, key: str | None) -> Span:
    match text[at]:
        case "{" | "[":
            return _container(text, start, at, key)
        case '"':
            return Span(start, _skip(_STRING, text, at), key, at)
        case _:
            return Span(start, _skip(_SCALAR, text, at), key, at)


def _container(text: str, start: int, opened: int, key: str | None) -> Span:
    items: list[Span] = []
    at = _skip(_BLANK, text, opened + 1)
    while text[at] not in "]}":
        if text[at] == ",":
            at = _skip(_BLANK, text, at + 1)
        items.append(_member(text, at) if text[opened] == "{" else _value(text, at, at, None))
        at = _skip(_BLANK, text, items[-1].end)
    return Span(start, at + 1, key, opened, tuple(items))


def _member(text: str, start: int) -> Span:
    end = _skip(_STRING, text, start)
    key = str(json.loads(text[start:end]))
    at = _skip(_BLANK, text, _skip(_BLANK, text, end) + 1)
    return _value(text, start, at, key)


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, f"json accepted what the scan can't follow at {at}"
    return match.end()
