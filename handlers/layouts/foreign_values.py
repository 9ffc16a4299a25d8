"""Values of foreign JSON, taken if they are of the wanted kind and within bounds, else not at all. Nothing raises.

For the readers of other tools' files, where any field may hold anything.
"""

import json
from typing import Final, NamedTuple

import msgspec

from runward.config.json_value import LATEST, JsonValue
from runward.handlers.foreign_json import MAXIMUM_DEPTH, NotJson, read_json
from runward.handlers.layouts.transcript_lines import decode, error_line, why_not
from runward.handlers.model.sessions import Complaint, Document

LONGEST_TEXT: Final = 1000
"""Characters of a short field (a name, an id, a path) that are kept."""

LARGEST_COUNT: Final = 1 << 53
"""The upper limit for counts: the largest whole number that every reader of JSON represents exactly."""


LONGEST_PATH: Final = 4096
"""Characters of a path that are kept: what Linux allows."""

MOST_TOKENS: Final = 2**48
"""The largest believable number of tokens."""

MOST_USD: Final = 1_000_000
"""The largest believable cost."""

UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""The pattern of a session's id in most agents' file names."""


def text_in(value: JsonValue, longest: int = LONGEST_TEXT) -> str | None:
    """A text with content, clipped to `longest` characters."""
    return value[:longest] if isinstance(value, str) and value else None


def whole_text_in(value: object, longest: int = LONGEST_TEXT) -> str | None:
    """A text with content in at most `longest` characters: a clipped id or path would name another thing."""
    return value if isinstance(value, str) and 0 < len(value) <= longest else None


def seconds_in(value: JsonValue) -> float | None:
    """A number of Unix seconds, if it is a time from 1970 to 9999."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= LATEST else None


def milliseconds_in(value: object) -> float | None:
    """The Unix seconds that a number of milliseconds is, if it is a time from 1970 to 9999."""
    # A whole number may be too large to be divided.
    at = number_in(value, 0, LATEST * 1000)
    return None if at is None else at / 1000


def count_in(value: object) -> int:
    """A whole number that counts something; 0 for anything else."""
    if type(value) is not int or value < 0:
        return 0
    return min(value, LARGEST_COUNT)


def is_error_code(value: JsonValue) -> bool:
    """Whether this is a process's exit code, and not the one for success."""
    return isinstance(value, int) and not isinstance(value, bool) and value != 0


def object_in(value: JsonValue) -> dict[str, JsonValue]:
    """The object in a field; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_in(value: JsonValue) -> list[JsonValue]:
    """The list in a field; an empty one for anything else."""
    return value if isinstance(value, list) else []


def document_object(document: Document) -> dict[str, JsonValue] | Complaint:
    """The object in a small file, or why there is none: the file may just be being written, or be torn for good."""
    if document.problem is not None:
        return Complaint(document.name, None, document.problem, "it counts as soon as it can be read")
    try:
        value = decode(document.content)
    except ValueError as error:
        # It may be whole, and have half a character in a text that its tool cut off.
        value = _loosely(document.content)
        if value is None:
            line = error_line(document.content, error)
            return Complaint(document.name, line, why_not(error), "it counts as soon as it is whole")
    if isinstance(value, dict):
        return value
    return Complaint(
        document.name, 1, "does not contain a JSON object", "it counts as soon as it contains one"
    )


_TEXT: Final = b'"'


class Value(NamedTuple):
    """A value in the record of a call, and why it can't be hashed, if it can't. Such values are never guessed.

    A value that JSON leaves open (a duplicate key, a lone surrogate) is read as most readers do, and marked as such.
    """

    value: JsonValue
    problem: str | None = None


def value_in(raw: msgspec.Raw) -> Value:
    """The value of these bytes of JSON; null where there are none."""
    if not len(raw):
        return Value(None)
    content = memoryview(raw)
    # Most values are texts, and for a text the fast reader is strict enough.
    if content[:1].tobytes() == _TEXT:
        try:
            return Value(decode(content))
        except ValueError:
            pass  # a lone surrogate: the code below says so
    whole = bytes(content)
    strict = read_json(whole)
    if not isinstance(strict, NotJson):
        return Value(strict)
    # What readers disagree about is shown as most of them read it, but it gets no hash: another reader would compute
    # another one.
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


def number_in(value: object, low: float, high: float) -> float | None:
    """A number within these bounds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        return None
    return float(value)


def whole_in(value: JsonValue) -> int | None:
    """A whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
