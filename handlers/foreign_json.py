"""Reading small JSON documents that somebody else wrote: strictly, and without ever raising.

Stricter than the standard library where JSON itself is vague: no duplicate keys, no NaN or
Infinity, no lone surrogates, and a bounded depth. A byte order mark at the beginning is skipped.
"""

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from runward.config.json_value import LATEST, JsonValue

MAXIMUM_DEPTH: Final = 64


class NotJson(NamedTuple):
    """Why a document is not JSON that Runward reads, and the line if one can be named."""

    message: str
    line: int | None = None


class _Refused(ValueError):
    """A document is JSON to the standard library, but not to us."""


def read_json(content: bytes) -> JsonValue | NotJson:
    """The document's value, or why there is none."""
    try:
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return NotJson(f"not UTF-8 (byte {error.start})", content.count(b"\n", 0, error.start) + 1)
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        return NotJson(f"not JSON: {error.msg}", error.lineno)
    except _Refused as error:
        return NotJson(str(error))
    except RecursionError:
        return NotJson("nested too deeply")
    except ValueError:
        return NotJson("contains a number that is too long")
    if text.count("[") + text.count("{") > MAXIMUM_DEPTH and _depth(value) > MAXIMUM_DEPTH:
        return NotJson(f"nested more than {MAXIMUM_DEPTH} levels deep")
    if "\\u" in text and not _encodable(value):
        return NotJson("contains a lone surrogate, which is not a character")
    return value


def _pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    table = dict(pairs)
    # Readers disagree about a key that appears twice, so such a text has no single meaning.
    if len(table) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"the key {key[:80]!r} appears twice in one object")
            seen.add(key)
    return table


def _constant(name: str) -> JsonValue:
    raise _Refused(f"{name} is not a JSON number")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _Refused(f"{text[:80]} is not a number that can be stored")
    return number


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)


def _encodable(value: JsonValue) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _depth(value: JsonValue) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        following: list[JsonValue] = []
        for each in level:
            if isinstance(each, dict):
                following.extend(each.values())
            elif isinstance(each, list):
                following.extend(each)
        level = following
    return deepest


def parse_time(value: object) -> float | None:
    """ISO 8601 with a zone as Unix seconds; None for anything else, and before 1970 or after 9999."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        return None
    at = moment.timestamp()
    return at if 0.0 <= at <= LATEST else None


def sane_time(at: float) -> float:
    """A file's modification time (Unix seconds), which anybody may set, limited to what ISO 8601 can write."""
    return min(max(at, 0.0), LATEST)


_VALUE_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\n\r"


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line, from 1, on which the value at `path` begins. None if there is none, or the text is not JSON."""
    try:
        at = _skipped(text, 0)
        for step in path:
            place = _in_list(text, at, step) if isinstance(step, int) else _in_table(text, at, step)
            if place is None:
                return None
            at = place
    except (ValueError, IndexError, RecursionError):
        return None
    return text.count("\n", 0, at) + 1


def _in_table(text: str, at: int, key: str) -> int | None:
    """Where the value of the last such key begins. The last one is the one that counts."""
    place = None
    at = _skipped(text, at + 1) if text[at] == "{" else -1
    while at != -1 and text[at] == '"':
        name, at = _VALUE_DECODER.raw_decode(text, at)
        at = _skipped(text, _skipped(text, at) + 1)
        if name == key:
            place = at
        at = _next(text, at)
    return place


def _in_list(text: str, at: int, index: int) -> int | None:
    at = _skipped(text, at + 1) if text[at] == "[" else -1
    for _ in range(index):
        if at == -1:
            return None
        at = _next(text, at)
    return None if at == -1 else at


def _next(text: str, at: int) -> int:
    """Where the text after the value at `at` begins. -1 if it was the last value."""
    _, end = _VALUE_DECODER.raw_decode(text, at)
    end = _skipped(text, end)
    return _skipped(text, end + 1) if text[end] == "," else -1


def _skipped(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
