"""Checks shared by every part of a chain's file: keys, durations, flags."""

from collections.abc import Mapping
from typing import Final

from runward.config.duration import DurationError, parse_duration
from runward.config.glob_rule import GlobError, check_text_glob
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted, unknown_key
from runward.config.shape import Complain

_NOT_YET: Final = "is not supported by this version yet"


def check_keys(
    table: Mapping[str, JsonValue],
    loc: Location,
    known: tuple[str, ...],
    not_yet: tuple[str, ...],
    complain: Complain,
) -> None:
    """Complain about every unknown key."""
    for key in table:
        if key in not_yet:
            complain(Complaint((*loc, key), _NOT_YET, "leave it out", at_key=True))
        elif key not in known:
            complain(unknown_key((*loc, key), known))


def duration(value: JsonValue, loc: Location, complain: Complain) -> float | None:
    """The seconds. None if nothing is given, or after a complaint."""
    if value is None:
        return None
    fix = 'write it with its unit: "30m"'
    if not isinstance(value, str):
        complain(Complaint(loc, f"is {kind(value)}, not a duration", fix))
        return None
    try:
        return parse_duration(value)
    except DurationError as error:
        complain(Complaint(loc, f"{quoted(value)} {error}", error.fix))
        return None


def check_glob(text: str, loc: Location, complain: Complain) -> None:
    """Complain about a text that is not a glob."""
    try:
        check_text_glob(text)
    except GlobError as error:
        complain(Complaint(loc, f"{quoted(text)} {error}", error.fix))


def flag(value: JsonValue, loc: Location, complain: Complain) -> bool:
    """Whether the value is true. False if nothing is given, or after a complaint."""
    if value is not None and not isinstance(value, bool):
        complain(Complaint(loc, f"is {kind(value)}, not true or false", None))
    return value is True


def whole_number(value: JsonValue, loc: Location, low: int, high: int, complain: Complain) -> int | None:
    """The number from `low` to `high`; None after a complaint."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        complain(Complaint(loc, f"must be a whole number from {low} to {high}, not {quoted(value)}", None))
        return None
    return value
