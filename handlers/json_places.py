"""Where in a JSON text a value is."""

import json
from collections.abc import Sequence
from typing import Final

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\n\r"


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line, from 1, on which the value at `path` begins. None if there is none, or the text is not JSON."""
    try:
        at = _skipped(text, 0)
        for step in path:
            found = _in_list(text, at, step) if isinstance(step, int) else _in_table(text, at, step)
            if found is None:
                return None
            at = found
    except (ValueError, IndexError, RecursionError):
        return None
    return text.count("\n", 0, at) + 1


def _in_table(text: str, at: int, key: str) -> int | None:
    """Where the value of the last such key begins. The last one is the one that counts."""
    found = None
    at = _skipped(text, at + 1) if text[at] == "{" else -1
    while at != -1 and text[at] == '"':
        name, at = _DECODER.raw_decode(text, at)
        at = _skipped(text, _skipped(text, at) + 1)
        if name == key:
            found = at
        at = _next(text, at)
    return found


def _in_list(text: str, at: int, index: int) -> int | None:
    at = _skipped(text, at + 1) if text[at] == "[" else -1
    for _ in range(index):
        if at == -1:
            return None
        at = _next(text, at)
    return None if at == -1 else at


def _next(text: str, at: int) -> int:
    """Where the text after the value at `at` begins. -1 if it was the last value."""
    _, end = _DECODER.raw_decode(text, at)
    end = _skipped(text, end)
    return _skipped(text, end + 1) if text[end] == "," else -1


def _skipped(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
