"""Filters in a chain's trigger: which events of a name fire it.

Every key must match; `a.b` looks into a table. A scalar is compared, a list means any of its values, and a table has
operators. A number, true, false or null also equals a text that YAML 1.2 reads as that value, because values on a
command line are texts.
"""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.chain_checks import check_glob
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, nearest, quoted, unknown_field
from runward.config.shape import Complain
from runward.config.yaml_document import read_yaml

OPERATORS: Final = ("eq", "ne", "in", "gt", "ge", "lt", "le", "glob", "exists")
_LONGEST_TEXT: Final = 200


class NoSuchField(NamedTuple):
    """How a filter sees a field that the event doesn't have."""


_NO_FIELD: Final = NoSuchField()


def check_filter(
    value: JsonValue, loc: Location, complain: Complain, fields: Sequence[str] | None = None
) -> dict[str, JsonValue]:
    """The filter in `value`. Complains about everything that is invalid, as far as the event's `fields` are known."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        complain(Complaint(loc, f"is {kind(value)}, not a table of keys", "write filter: {KEY: VALUE}"))
        return {}
    for key, wanted in value.items():
        place = (*loc, key)
        if not all(key.split(".")):
            complain(Complaint(place, "has an empty name in it", "write it as in pull.base", at_key=True))
        elif fields is not None and key.split(".")[0] not in fields:
            complain(unknown_field(key.split(".")[0], place, "the event", fields)._replace(at_key=True))
        if isinstance(wanted, dict):
            _check_operators(wanted, place, complain)
        elif isinstance(wanted, list) and not all(_is_scalar(each) for each in wanted):
            complain(
                Complaint(place, "has a list or a table in its list", "list texts, numbers, true or false")
            )
    return dict(value)


def _check_operators(wanted: Mapping[str, JsonValue], loc: Location, complain: Complain) -> None:
    if not wanted:
        complain(Complaint(loc, "is an empty table", f"use one of {', '.join(OPERATORS)}"))
    for name, value in wanted.items():
        place = (*loc, name)
        if name not in OPERATORS:
            guess = nearest(name, OPERATORS)
            fix = f"did you mean {guess!r}?" if guess else f"known here: {', '.join(OPERATORS)}"
            complain(Complaint(place, "unknown operator", fix, at_key=True))
        elif name == "in" and not (isinstance(value, list) and all(_is_scalar(each) for each in value)):
            complain(Complaint(place, f"is {kind(value)}, not a list of values", "write in: [a, b]"))
        elif name == "exists" and not isinstance(value, bool):
            complain(Complaint(place, f"must be true or false, not {quoted(value)}", None))
        elif name == "glob" and not isinstance(value, str):
            complain(Complaint(place, f"is {kind(value)}, not a text", 'write glob: "release/*"'))
        elif name == "glob":
            check_glob(str(value), place, complain)
        elif name not in ("in", "exists", "glob") and not _is_scalar(value):
            complain(
                Complaint(place, f"is {kind(value)}, which can't be compared", "write a text or a number")
            )


def why_not(wanted: Mapping[str, JsonValue], fields: Mapping[str, JsonValue]) -> str | None:
    """Why an event with these fields doesn't pass the filter. None if it does."""
    for key, value in wanted.items():
        field = _field(fields, key)
        operators = value if isinstance(value, dict) else {"in" if isinstance(value, list) else "eq": value}
        for name, operand in operators.items():
            if not _holds(name, field, operand):
                has = "is missing" if isinstance(field, NoSuchField) else f"is {quoted(field)}"
                return f"{key} {has}, and the filter wants {name} {_shown(operand)}"
    return None


def _holds(operator: str, field: JsonValue | NoSuchField, operand: JsonValue) -> bool:
    if operator == "exists":
        return (not isinstance(field, NoSuchField)) == operand
    if isinstance(field, NoSuchField):
        return operator == "ne"
    match operator:
        case "eq":
            return _equal(operand, field)
        case "ne":
            return not _equal(operand, field)
        case "in":
            return isinstance(operand, list) and any(_equal(each, field) for each in operand)
        case "glob":
            return isinstance(field, str) and fnmatch.fnmatchcase(field, str(operand))
    return _ordered(operator, field, operand)


def _ordered(operator: str, field: JsonValue, operand: JsonValue) -> bool:
    less, more = _number(field), _number(operand)
    if less is None or more is None:
        if not isinstance(field, str) or not isinstance(operand, str):
            return False
        order = (field > operand) - (field < operand)
    else:
        order = (less > more) - (less < more)
    return {"gt": order > 0, "ge": order >= 0, "lt": order < 0, "le": order <= 0}[operator]


def _equal(wanted: JsonValue, field: JsonValue) -> bool:
    if isinstance(wanted, str):
        return wanted == field
    if isinstance(field, str):
        field = _as_written(field)
    if isinstance(wanted, bool) or isinstance(field, bool) or wanted is None or field is None:
        return wanted is field
    return isinstance(field, int | float) and wanted == field


def _number(value: JsonValue) -> int | float | None:
    """The number, which is not made a float: foreign data has whole numbers that don't fit into one."""
    value = _as_written(value) if isinstance(value, str) else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_written(text: str) -> JsonValue:
    """What YAML 1.2 reads as the plain scalar `text`; the text itself if it is not a scalar."""
    if not text or len(text) > _LONGEST_TEXT or text != text.strip():
        return text
    parsed = read_yaml(text, "")
    read = parsed.value.root if parsed.value is not None else text
    return read if _is_scalar(read) else text


def _field(fields: Mapping[str, JsonValue], key: str) -> JsonValue | NoSuchField:
    if key in fields:
        return fields[key]
    value: JsonValue = dict(fields)
    for name in key.split("."):
        if not isinstance(value, dict) or name not in value:
            return _NO_FIELD
        value = value[name]
    return value


def _is_scalar(value: JsonValue) -> bool:
    return not isinstance(value, list | dict)


def _shown(operand: JsonValue) -> str:
    if isinstance(operand, list):
        return ", ".join(quoted(each) for each in operand[:5])
    return quoted(operand)
