"""The keys of tables that people write. Each is declared once, as a field of the class that holds its value.

The declaration has the key's JSON Schema and its reader. The known keys of a table, its schema and its checks follow from
it. What must hold for several keys together is for the reader of the table.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from runward.config.duration import DURATION_PATTERN, DurationError, parse_duration
from runward.config.glob_rule import GlobError, check_text_glob
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted, unknown_key
from runward.config.shape import Choice, Complain

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

Schema: TypeAlias = Mapping[str, JsonValue]
Reader: TypeAlias = Callable[[JsonValue, Location, Any], T]
"""Gives the value of a key as its field has it. The third thing that it is given takes complaints."""

Holder: TypeAlias = Callable[..., object]
"""A class whose fields are made from keys."""

_DECLARED: Final = "declared"


class Key(NamedTuple):
    """A key of a table, and the field that is made from it. `beside` are more keys that it is made from."""

    name: str
    field: str
    schema: Schema
    read: Reader[object] | None
    beside: Mapping[str, Schema]
    is_required: bool
    rank: int


def from_key(
    schema: Schema,
    read: Reader[T] | None = None,
    default: object = MISSING,
    *,
    name: str | None = None,
    beside: Mapping[str, Schema] | None = None,
    rank: int = 0,
) -> T:
    """A field that is made from the key of its name, or of another `name`. Without a default the key is required.

    Without `read` the reader of the table makes it. `beside` are more keys that it is made from. Messages list keys of a
    lower `rank` first.
    """
    declared = Key(
        name=name or "",  # without one it is that of the field, which only the class knows
        field="",
        schema=schema,
        read=read,
        beside=beside or {},
        is_required=default is MISSING,
        rank=rank,
    )
    metadata = {_DECLARED: declared}
    if isinstance(default, dict):
        return cast("T", field(default_factory=default.copy, metadata=metadata))
    return cast("T", field(default=default, metadata=metadata))


def seconds(description: str, default: T, *, rank: int = 0) -> float | T:
    """A field for a duration."""

    def read(value: JsonValue, loc: Location, complain: Complain) -> float | T:
        given = duration(value, loc, complain)
        return default if given is None else given

    return from_key(duration_schema(description), read, default, rank=rank)


def flag(description: str) -> bool:
    """A field that is true or false. False if nothing is given."""
    return from_key(flag_schema(description), true_or_false, default=False)


def choice(description: str, words: tuple[Word, ...], default: Word) -> Word:
    """A field for one of a few words."""
    shape = Choice(description, words)

    def read(value: JsonValue, loc: Location, complain: Complain) -> Word:
        return default if shape.check(value, loc, complain) is None else cast("Word", value)

    return from_key({**shape.json_schema(), "description": description}, read, default)


@cache
def _keys_of(holder: Holder) -> tuple[Key, ...]:
    """The keys of a class in the order of its fields."""
    declared = [(each.name, each.metadata.get(_DECLARED)) for each in fields(cast("Any", holder))]
    return tuple(
        each._replace(name=each.name or name, field=name) for name, each in declared if each is not None
    )


@cache
def known_keys(holder: Holder) -> tuple[str, ...]:
    """The names of all keys, in the order in which messages list them."""
    return tuple(name for each in _in_reading_order(holder) for name in (each.name, *each.beside))


@cache
def _in_reading_order(holder: Holder) -> tuple[Key, ...]:
    # The schema has the order of the fields. Messages have always listed a few keys elsewhere: those have another rank.
    return tuple(sorted(_keys_of(holder), key=lambda each: each.rank))


def schemas(holder: Holder) -> dict[str, JsonValue]:
    """The JSON Schema of each key."""
    return {
        name: dict(schema)
        for each in _keys_of(holder)
        for name, schema in ((each.name, each.schema), *each.beside.items())
    }


def table_schema(holder: Holder, **more: JsonValue) -> dict[str, JsonValue]:
    """The JSON Schema of the whole table, with `more` that it says."""
    required: list[JsonValue] = [each.name for each in _keys_of(holder) if each.is_required]
    return {
        "type": "object",
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **more,
        "properties": schemas(holder),
    }


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
    """The fields whose keys are in the table and have a reader. The others keep their defaults."""
    read: dict[str, Any] = {}
    for each in _in_reading_order(holder):
        if each.read is not None and any(name in table for name in (each.name, *each.beside)):
            read[each.field] = each.read(table.get(each.name), (*loc, each.name), complain)
    return read


def values_by_key(holder: Holder, value: object) -> dict[str, Any]:
    """What the fields of a value hold, by their keys."""
    return {each.name: getattr(value, each.field) for each in _in_reading_order(holder)}


def duration_schema(description: str) -> dict[str, JsonValue]:
    return {"type": "string", "pattern": DURATION_PATTERN, "description": description}


def text_schema(description: str) -> dict[str, JsonValue]:
    return {"type": "string", "minLength": 1, "description": description}


def flag_schema(description: str) -> dict[str, JsonValue]:
    return {"type": "boolean", "description": description}


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
