"""Foreign JSON: its type, and what counts as plain data."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from runward.config.problem import Complaint, Location, kind

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
    """Any JSON document. Unlike with `Any`, nothing can be done with it before it is checked."""
else:
    JsonValue = Any  # what reads stored values takes any JSON there


MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 50
MAX_INTEGER: Final = (1 << 63) - 1
"""Beyond 64 bits neither the store nor other readers of the same file agree on a number."""

LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999 (Unix seconds): later times can't be written as ISO 8601."""


def stored_json(value: object) -> bytes:
    """The value as the store and the journals have it: JSON without spaces, in UTF-8. Raises `ValueError`."""
    import pydantic_core  # its import takes 10 ms, and what has no run to store needs none

    return pydantic_core.to_json(value)


def from_stored_json(text: str | bytes) -> Any:  # noqa: ANN401 - its readers know its shape
    """The value that `stored_json` wrote. Raises `ValueError`."""
    from pydantic_core import from_json

    return from_json(text)


def not_plain(root: object) -> Iterator[Complaint]:
    """A complaint for each value in the tree that is not plain data."""
    # A list of what is left, not a call for each level: foreign data may be nested deeper than Python can call.
    waiting: list[tuple[Location, object]] = [((), root)]
    while waiting:
        loc, value = waiting.pop()
        complaint = _fault(loc, value)
        if complaint is not None:
            yield complaint
        elif isinstance(value, dict):
            waiting.extend(((*loc, key), item) for key, item in value.items())
        elif isinstance(value, list):
            waiting.extend(((*loc, index), item) for index, item in enumerate(value))


def objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    """The objects in a list; none of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def texts(value: JsonValue) -> list[str]:
    """The texts of a list; none if it is something else."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8. A lone surrogate can't, and escapes in YAML and JSON can make one."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fault(loc: Location, value: object) -> Complaint | None:
    match value:
        case None | bool():
            return None
        case str():
            fine = is_text(value)
            return (
                None if fine else Complaint(loc, "has a lone surrogate in it", "write the character itself")
            )
        case int():
            big = abs(value) > MAX_INTEGER
            return (
                Complaint(loc, "is a whole number of more than 64 bits", "put it in quotes") if big else None
            )
        case float():
            finite = abs(value) < float("inf")
            return None if finite else Complaint(loc, "is not a finite number", "write a finite number")
        case list() | dict() if len(loc) >= MAX_DEPTH:
            # The place is cut: the whole one has as many parts as the data has levels.
            return Complaint(loc[:1], f"is nested more than {MAX_DEPTH} deep", "nest less")
        case dict():
            fine = all(is_text(key) for key in value)
            return None if fine else Complaint(loc, "has a key with a lone surrogate in it", "fix the key")
        case list():
            return None
        case _:
            return Complaint(loc, f"must be plain data, not {kind(value)}", "put it in quotes")
