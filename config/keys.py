"""The keys of tables that people write. Each is declared once, as a field of the class that holds its value.

From a field such as `timeout: Annotated[float | None, seconds("For the whole run.")] = None` follow the known keys of the
table, its JSON Schema, its checks and its defaults. What must hold for several keys together is for the reader of the table.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, get_args

from runward.config.duration import DURATION_PATTERN, DurationError, parse_duration
from runward.config.glob_rule import GlobError, check_text_glob
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted, unknown_key, wrong_kind
from runward.config.shape import Choice, Complain

Schema: TypeAlias = Mapping[str, JsonValue]
Reader: TypeAlias = Callable[[JsonValue, Location, Any], object]
"""Gives the value of a key as its field has it. The third thing that it is given takes complaints."""

Holder: TypeAlias = Callable[..., object]
"""A named tuple or dataclass with fields that are made from keys."""


class Key(NamedTuple):
    """Says of a field from which key it is made: from that of its name, or of another `name`.

    A field without a default has a required key. Without `read` the reader of the table makes the field. Where `read` gives
    None, the field has its default. `beside` are more keys that it is made from. Messages list keys of a lower `rank` first.
    """

    schema: Schema
    read: Reader | None = None
    name: str = ""
    beside: Mapping[str, Schema] = MappingProxyType({})
    rank: int = 0

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schemas of all keys that the field is made from."""
        return {self.name: self.schema, **self.beside}


def seconds(description: str, *, rank: int = 0) -> Key:
    """The key of a duration."""
    return Key(duration_schema(description), duration, rank=rank)


def flag(description: str) -> Key:
    """The key of what is true or false."""
    return Key(flag_schema(description), true_or_false)


def optional(title: str, schema: Schema, description: str, read: Reader) -> Key:
    """The key of what may also be null."""
    either: JsonValue = [dict(schema), {"type": "null"}]
    return Key({"anyOf": either, "default": None, "description": description, "title": title}, read)


def words(description: str, literal: object) -> Key:
    """The key of one of the words of a `Literal`."""
    shape = Choice(description, get_args(literal))
    return Key({**shape.json_schema(), "description": description}, shape.check)


@cache
def _keys_of(holder: Holder) -> dict[str, Key]:
    """The keys by the names of the fields that are made from them, in the order of the fields."""
    return {
        name: key._replace(name=key.name or name)
        for name, annotation in holder.__annotations__.items()
        for key in getattr(annotation, "__metadata__", ())
        if isinstance(key, Key)
    }


@cache
def _in_reading_order(holder: Holder) -> dict[str, Key]:
    # The schema has the order of the fields. Messages have always listed a few keys elsewhere: those have another rank.
    return dict(sorted(_keys_of(holder).items(), key=lambda each: each[1].rank))


@cache
def known_keys(holder: Holder) -> tuple[str, ...]:
    """The names of all keys, in the order in which messages list them."""
    return tuple(name for key in _in_reading_order(holder).values() for name in key.schemas)


def schemas(holder: Holder) -> dict[str, JsonValue]:
    """The JSON Schema of each key."""
    return {name: dict(schema) for key in _keys_of(holder).values() for name, schema in key.schemas.items()}


def table_schema(holder: Holder, **more: JsonValue) -> dict[str, JsonValue]:
    """The JSON Schema of the whole table, with `more` that it says."""
    defaults = _defaults(holder)
    required: list[JsonValue] = [key.name for name, key in _keys_of(holder).items() if name not in defaults]
    return {
        "type": "object",
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **more,
        "properties": schemas(holder),
    }


def shared_table_schema(holder: Holder, title: str) -> dict[str, JsonValue]:
    """The JSON Schema of a table in which other tools may have keys of their own."""
    return {
        "description": (holder.__doc__ or "").partition("\n\n")[0],
        "properties": {name: _sorted(schema) for name, schema in schemas(holder).items()},
        "title": title,
        "type": "object",
    }


def _sorted(schema: JsonValue) -> JsonValue:
    """The schema with the words in each part of it in alphabetical order. The keys that it describes keep their order."""
    if isinstance(schema, list):
        return [_sorted(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    ordered: dict[str, JsonValue] = {}
    for word, value in sorted(schema.items()):
        if word == "properties" and isinstance(value, dict):
            ordered[word] = {name: _sorted(each) for name, each in value.items()}
        else:
            ordered[word] = _sorted(value)
    return ordered


def _defaults(holder: Holder) -> Collection[str]:
    """The names of the fields that have a default."""
    of_named_tuple: dict[str, object] | None = getattr(holder, "_field_defaults", None)
    if of_named_tuple is not None:
        return of_named_tuple
    from dataclasses import MISSING, fields, is_dataclass  # the launcher reads playbooks without it

    assert is_dataclass(holder)
    return [
        each.name
        for each in fields(holder)
        if each.default is not MISSING or each.default_factory is not MISSING
    ]


def check_keys(
    table: Mapping[str, JsonValue], loc: Location, known: Iterable[str], complain: Complain
) -> None:
    """Complain about every unknown key."""
    known = tuple(known)
    for name in table:
        if name not in known:
            complain(unknown_key((*loc, name), known))


def read_keys(
    holder: Holder, table: Mapping[str, JsonValue], loc: Location, complain: Complain
) -> dict[str, Any]:
    """The fields that the keys in the table give. A field that is left out has its default."""
    # In the order of the messages: if there are too many complaints, the first ones are kept.
    given: dict[str, Any] = {}
    for field, key in _in_reading_order(holder).items():
        if key.read is not None and (key.name in table or not key.beside.keys().isdisjoint(table)):
            value = key.read(table.get(key.name), (*loc, key.name), complain)
            if value is not None:
                given[field] = value
    return given


def values_by_key(holder: Holder, value: object) -> dict[str, Any]:
    """What the fields of a value hold, by their keys."""
    return {key.name: getattr(value, field) for field, key in _in_reading_order(holder).items()}


def duration_schema(description: str) -> dict[str, JsonValue]:
    return {"type": "string", "pattern": DURATION_PATTERN, "description": description}


def text_schema(description: str) -> dict[str, JsonValue]:
    return {"type": "string", "minLength": 1, "description": description}


def list_schema(description: str, definition: str, most: int) -> dict[str, JsonValue]:
    """The schema of a list of what the whole document's schema defines under this name."""
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": most,
        "items": {"$ref": f"#/$defs/{definition}"},
        "description": description,
    }


def flag_schema(description: str) -> dict[str, JsonValue]:
    return {"type": "boolean", "description": description}


def text(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    """The text. None if nothing is given, or after a complaint."""
    if value is None or isinstance(value, str):
        return value
    complain(wrong_kind(loc, value, "a text", "put it in quotes"))
    return None


def table_of_keys(
    value: JsonValue, loc: Location, complain: Complain, fix: str
) -> dict[str, JsonValue] | None:
    """The table. None if nothing is given, or after a complaint."""
    if value is None or isinstance(value, dict):
        return value
    complain(Complaint(loc, f"is {kind(value)}, not a table of keys", fix))
    return None


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
        complain(error.complaint(loc, text))


def true_or_false(value: JsonValue, loc: Location, complain: Complain) -> bool:
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
