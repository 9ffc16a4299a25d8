"""Values of foreign JSON, taken if they are of the wanted kind and within bounds, else not at all. Nothing raises.

For the scanners of other tools' files, where any field may hold anything.
"""

from typing import Final

from runward.config.json_value import JsonValue
from runward.config.plain_data import LATEST
from runward.handlers.layouts.transcript_lines import decode, error_line, why_not
from runward.handlers.model.sessions import Complaint, Document

LONGEST_TEXT: Final = 1000
"""Characters of a short field (a name, an id, a path) that are kept."""

LARGEST_COUNT: Final = 1 << 53
"""The upper limit for counts: the largest whole number that every reader of JSON represents exactly."""


def text_in(value: JsonValue, longest: int = LONGEST_TEXT) -> str | None:
    """A text with content, clipped to `longest` characters."""
    return value[:longest] if isinstance(value, str) and value else None


def whole_text_in(value: JsonValue, longest: int = LONGEST_TEXT) -> str | None:
    """A text with content in at most `longest` characters: a clipped id or path would name another thing."""
    return value if isinstance(value, str) and 0 < len(value) <= longest else None


def seconds_in(value: JsonValue) -> float | None:
    """A number of Unix seconds, if it is a time from 1970 to 9999."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= LATEST else None


def count_in(value: JsonValue) -> int:
    """A whole number that counts something; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
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
        line = error_line(document.content, error)
        return Complaint(document.name, line, why_not(error), "it counts as soon as it is whole")
    if isinstance(value, dict):
        return value
    return Complaint(
        document.name, 1, "does not contain a JSON object", "it counts as soon as it contains one"
    )
