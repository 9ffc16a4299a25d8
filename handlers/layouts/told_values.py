"""Values in the records of calls: taken strictly, because they are hashed, and never guessed.

A value that JSON leaves open (a duplicate key, a lone surrogate) is read as most readers do, and marked as such, so
that it is not hashed."""

import json
from typing import Final, NamedTuple

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import MAXIMUM_DEPTH, NotJson, read_json
from runward.handlers.layouts.transcript_lines import decode

_TEXT: Final = b'"'


class Value(NamedTuple):
    """A value, and why it can't be hashed, if it can't."""

    value: JsonValue
    problem: str | None = None


def value_in(raw: msgspec.Raw) -> Value:
    """The value of these bytes of JSON; null where there are none."""
    if not len(raw):
        return Value(None)
    content = memoryview(raw)
    if content[:1].tobytes() == _TEXT:
        try:
            return Value(decode(content))
        except ValueError:
            pass  # a lone surrogate: the code below says so
    whole = bytes(content)
    strict = read_json(whole)
    if not isinstance(strict, NotJson):
        return Value(strict)
    return Value(_loosely(whole), strict.message)


def text_value(text: str) -> Value:
    """The JSON value in a text, or the text itself if it contains none."""
    content = text.encode(errors="replace")
    strict = read_json(content)
    if not isinstance(strict, NotJson):
        return Value(strict)
    try:
        decode(content)
    except ValueError:
        return Value(text)
    return Value(text, strict.message)


def _loosely(raw: bytes) -> JsonValue:
    """What can be shown of a value that isn't plain JSON. Null if nothing can."""
    try:
        value: JsonValue = json.loads(raw)
        shown = decode(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return shown if _is_shallow(shown) else None


def _is_shallow(value: JsonValue) -> bool:
    level = [value]
    for _ in range(MAXIMUM_DEPTH):
        if not level:
            return True
        inner = [each for each in level if isinstance(each, dict | list)]
        level = [one for each in inner for one in (each.values() if isinstance(each, dict) else each)]
    return not level


def number_in(value: JsonValue, low: float, high: float) -> float | None:
    """A number within these bounds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        return None
    return float(value)


def whole_in(value: JsonValue) -> int | None:
    """A whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
