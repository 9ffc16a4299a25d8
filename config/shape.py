"""The shapes of settings: each checks one value and describes itself as JSON Schema.

Plain Python, while playbooks and other documents are pydantic models: every command reads the settings first,
the launcher within its start-up budget, and importing pydantic alone would exceed that.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from runward.config.duration import (
    DURATION_PATTERN,
    MAX_DURATION_S,
    DurationError,
    parse_duration,
    render_duration,
)
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted, unknown_key

_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"

_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,9}) ?(B|KB|MB|GB|TB)")

Complain: TypeAlias = Callable[[Complaint], None]


class Shape(Protocol):
    """What a value may look like."""

    @property
    def description(self) -> str:
        """What the value is for, for those who write it."""

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        """The value in its intended form (a duration in seconds), or None after a complaint."""

    def json_schema(self) -> dict[str, JsonValue]:
        """The shape as JSON Schema, without its description."""


class Text(NamedTuple):
    """A text of 1 to `longest` characters without any of `forbidden` and without control characters."""

    description: str
    longest: int
    forbidden: str = ""

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, str):
            complain(_wrong_kind(loc, value, "a text", "put it in quotes"))
            return None
        found = [char for char in self.forbidden if char in value]
        if not value:
            complain(Complaint(loc, "is empty", "leave it out for the default"))
        elif len(value) > self.longest:
            complain(Complaint(loc, f"is longer than {self.longest} characters", "shorten it"))
        elif found:
            complain(
                Complaint(
                    loc, f"{quoted(value)} has '{found[0]}' in it", f"write it without {self.forbidden}"
                )
            )
        elif re.search(_CONTROL, value):
            complain(Complaint(loc, f"{quoted(value)} has a control character in it", "remove it"))
        else:
            return value
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        schema: dict[str, JsonValue] = {"type": "string", "minLength": 1, "maxLength": self.longest}
        if self.forbidden:
            schema["pattern"] = f"^[^{self.forbidden}]*$"
        return schema


class Glob(NamedTuple):
    """A glob of a text, or `of_path`, of 1 to `longest` characters."""

    description: str
    longest: int
    of_path: bool = False
    forbidden: str = ""

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        from runward.config.glob_rule import GlobError, check_path_glob, check_text_glob

        text = Text(self.description, self.longest, self.forbidden).check(value, loc, complain)
        if not isinstance(text, str):
            return None
        try:
            (check_path_glob if self.of_path else check_text_glob)(text)
        except GlobError as error:
            complain(Complaint(loc, f"{quoted(text)} {error}", error.fix))
            return None
        return text

    def json_schema(self) -> dict[str, JsonValue]:
        return Text(self.description, self.longest, self.forbidden).json_schema()


class Choice(NamedTuple):
    """One of a few words."""

    description: str
    options: tuple[str, ...]

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, str) and value in self.options:
            return value
        complain(Complaint(loc, f"{quoted(value)} is not known", f"one of: {', '.join(self.options)}"))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"enum": list(self.options)}


class TrueOrFalse(NamedTuple):
    """True or false."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, bool):
            return value
        complain(_wrong_kind(loc, value, "true or false", "write it without quotes"))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "boolean"}


class WholeNumber(NamedTuple):
    """A whole number from `low` to `high`."""

    description: str
    low: int
    high: int

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        wanted = f"must be a whole number from {self.low} to {self.high}, not {quoted(value)}"
        complain(Complaint(loc, wanted, _without_quotes(value)))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


class Share(NamedTuple):
    """A number above 0 and at most 1."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
            return float(value)
        complain(
            Complaint(loc, f"must be above 0 and at most 1, not {quoted(value)}", _without_quotes(value))
        )
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "number", "exclusiveMinimum": 0, "maximum": 1}


NEVER = "never"
"""The word for no duration at all, where that is allowed."""


class DurationText(NamedTuple):
    """A duration with its unit, from `shortest` to `longest` seconds; read as seconds.

    With `or_never` also the word `never`; with `or_seconds`, for a key whose name gives the unit, also a number.
    """

    description: str
    shortest: float
    or_never: bool = False
    longest: float = MAX_DURATION_S
    or_seconds: bool = False

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if self.or_seconds and isinstance(value, int | float) and not isinstance(value, bool):
            value = f"{value:f}s" if math.isfinite(value) else str(value)
        if not isinstance(value, str):
            complain(_wrong_kind(loc, value, "a duration", 'write it with its unit and in quotes: "30s"'))
            return None
        if self.or_never and value == NEVER:
            return NEVER
        try:
            seconds = parse_duration(value, self.longest)
        except DurationError as error:
            complain(Complaint(loc, str(error), error.fix))
            return None
        if seconds < self.shortest:
            least = render_duration(self.shortest)
            complain(
                Complaint(loc, f"must be at least {least}, not {quoted(value)}", f'write "{least}" or more')
            )
            return None
        return seconds

    def json_schema(self) -> dict[str, JsonValue]:
        pattern = f"{DURATION_PATTERN}|^{NEVER}$" if self.or_never else DURATION_PATTERN
        text: dict[str, JsonValue] = {"type": "string", "pattern": pattern}
        if not self.or_seconds:
            return text
        return {"anyOf": [text, {"type": "number", "minimum": self.shortest}]}


def size_of(text: str) -> int | None:
    """The number of bytes of a size with its unit. None if it is not a size."""
    found = _SIZE.fullmatch(text)
    return None if found is None else int(found[1]) * _BYTES[found[2]]


class SizeText(NamedTuple):
    """A size with its unit, as in 256MB; read as bytes. 1 KB is 1024 B, as in ADR-0029."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, str):
            complain(_wrong_kind(loc, value, "a size", 'write it with its unit and in quotes: "256MB"'))
            return None
        size = size_of(value)
        if size is None:
            fix = "write a whole number with its unit, as in 512KB, 256MB or 2GB"
            complain(Complaint(loc, f"is not a size: {quoted(value)}", fix))
        return size

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": "^[0-9]{1,9} ?(B|KB|MB|GB|TB)$"}


class ListOf(NamedTuple):
    """A list of one shape, at most `longest` long."""

    description: str
    item: Shape
    longest: int

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, list):
            complain(_wrong_kind(loc, value, "a list", "put it in square brackets"))
            return None
        if len(value) > self.longest:
            complain(Complaint(loc, f"has more than {self.longest} entries", "list fewer"))
            return None
        return [self.item.check(item, (*loc, index), complain) for index, item in enumerate(value)]

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "array", "maxItems": self.longest, "items": described(self.item)}


class Table(NamedTuple):
    """A table of known keys, with `some` at least one; `check_whole` complains about keys that do not go together."""

    description: str
    keys: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    some: bool = False
    check_whole: Callable[[Mapping[str, JsonValue], Location, Complain], None] | None = None

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        """A table of the keys that are there and valid."""
        if not isinstance(value, dict):
            complain(_wrong_kind(loc, value, "a table of keys", "give it keys of its own"))
            return None
        for key in self.required:
            if key not in value:
                complain(Complaint(loc, f"has no '{key}'", f"add {key} = …"))
        if self.some and not value:
            complain(Complaint(loc, "is empty", f"name at least one of: {', '.join(self.keys)}"))
        checked: dict[str, JsonValue] = {}
        for key, item in value.items():
            if key in self.keys:
                checked[key] = self.keys[key].check(item, (*loc, key), complain)
            else:
                complain(unknown_key((*loc, key), self.keys))
        if self.check_whole is not None:
            self.check_whole(checked, loc, complain)
        return checked

    def json_schema(self) -> dict[str, JsonValue]:
        schema: dict[str, JsonValue] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: described(shape) for key, shape in self.keys.items()},
        }
        if self.required:
            schema["required"] = list(self.required)
        if self.some:
            schema["minProperties"] = 1
        return schema


class NamedTables(NamedTuple):
    """Tables of one shape under names that the operator chooses."""

    description: str
    name: Text
    item: Shape
    longest: int

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        """The tables by name, each in its intended form or None."""
        if not isinstance(value, dict):
            complain(_wrong_kind(loc, value, "a table of named tables", "give each a name of its own"))
            return None
        if len(value) > self.longest:
            complain(Complaint(loc, f"has more than {self.longest} entries", "write fewer"))
            return None
        checked: dict[str, JsonValue] = {}
        for name, each in value.items():
            if self.name.check(name, (*loc, name), complain) is not None:
                checked[name] = self.item.check(each, (*loc, name), complain)
        return checked

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "object", "maxProperties": self.longest, "additionalProperties": described(self.item)}


def as_written(shape: Shape, value: JsonValue) -> JsonValue:
    """A value that `check` returned, as people write it: durations and sizes with their units, absent keys left out."""
    if isinstance(shape, Table) and isinstance(value, dict):
        return {
            key: as_written(shape.keys[key], each)
            for key, each in value.items()
            if each is not None or _means_never(shape.keys[key])
        }
    if isinstance(shape, NamedTables) and isinstance(value, dict):
        return {name: as_written(shape.item, each) for name, each in value.items()}
    if isinstance(shape, ListOf) and isinstance(value, list):
        return [as_written(shape.item, each) for each in value]
    if isinstance(shape, DurationText):
        return render_duration(value) if isinstance(value, int | float) else NEVER
    if isinstance(shape, SizeText) and isinstance(value, int):
        unit = next(unit for unit in reversed(_BYTES) if value % _BYTES[unit] == 0) if value else "B"
        return f"{value // _BYTES[unit]}{unit}"
    return value


def _means_never(shape: Shape) -> bool:
    return isinstance(shape, DurationText) and shape.or_never


def described(shape: Shape) -> dict[str, JsonValue]:
    """The shape's JSON Schema with its description."""
    return {"description": shape.description, **shape.json_schema()}


def _wrong_kind(loc: Location, value: JsonValue, wanted: str, fix: str) -> Complaint:
    return Complaint(loc, f"must be {wanted}, not {kind(value)}", fix)


def _without_quotes(value: JsonValue) -> str:
    return (
        "write the number without quotes" if isinstance(value, str) else "write a number within these bounds"
    )
