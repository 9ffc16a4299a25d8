"""Tables of settings: a named tuple declares a table, and everything else about its keys follows from its fields.

A key is declared once, as a field: `step: Annotated[int, WholeNumber("What it is for.", 1, 10_000)] = 2`. From that
follow its check, its default, its text in the JSON Schema, its place in stored JSON, and how layers are merged.
"""

from collections.abc import Callable, Iterator, Mapping
from keyword import iskeyword
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, Place, Problem, unknown_key, wrong_kind
from runward.config.shape import Complain, Shape, Start, Text, UnknownForm, described

T = TypeVar("T")

CheckWhole: TypeAlias = Callable[[Mapping[str, JsonValue], Location, Complain], None]


class Table(Shape, Generic[T]):
    """A table whose keys are the fields of the named tuple `of` that have a shape; its docstring describes the table.

    `required` are the keys that must be written; without it, those without a default. `some`: at least one must be.
    `check_whole` complains about keys that do not go together. Later files replace the table key by key, or
    entirely if it `is_one_value`. A `sparse` table leaves out of its JSON what has its default. The keys of an
    `inlined` one stand in the table around it.
    """

    def __init__(
        self,
        of: type[T],
        *,
        required: tuple[str, ...] | None = None,
        some: bool = False,
        check_whole: CheckWhole | None = None,
        is_one_value: bool = False,
        sparse: bool = False,
        inlined: bool = False,
    ) -> None:
        super().__init__(" ".join((of.__doc__ or "").split("\n\n")[0].split()))
        self.of, self.some, self.check_whole = of, some, check_whole
        self.is_one_value, self.sparse, self.inlined = is_one_value, sparse, inlined
        self.fields = dict(_shapes(of))
        self.defaults: dict[str, Any] = {}
        self.keys: dict[str, Shape] = {}
        """All keys of the table, those of tables that are inlined among them."""
        for name, shape in self.fields.items():
            if isinstance(shape, Table) and shape.inlined:
                self.keys |= shape.keys
                self.defaults |= shape.defaults
            else:
                self.keys[name] = shape
        self.defaults |= vars(of)["_field_defaults"]
        self._without_default = tuple(key for key in self.fields if key not in self.defaults)
        self.required = (
            tuple(key for key in self.keys if key not in self.defaults) if required is None else required
        )

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        """A table of the keys that are there and valid."""
        if not isinstance(value, dict):
            complain(wrong_kind(loc, value, "a table of keys", "give it keys of its own"))
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
            "properties": {
                key: {**described(shape), "description": self.description_of(key)}
                for key, shape in self.keys.items()
            },
        }
        if self.required:
            schema["required"] = list(self.required)
        if self.some:
            schema["minProperties"] = 1
        return schema

    def description_of(self, key: str) -> str:
        """What the key is for, and its default, unless the description has words for that."""
        description, default = self.keys[key].description, self.default_of(key)
        has_words = default is None or "Default:" in description
        return description if has_words else f"{description} Default: {default}."

    def default_of(self, key: str) -> str | None:
        """The default as people write it; None if there is none."""
        shape, default = self.keys[key], self.defaults.get(key)
        if default in (None, ()) or isinstance(shape, Table):
            return None
        written = shape.as_written(shape.to_json(default))
        return str(written).lower() if isinstance(written, bool) else str(written)

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        if not isinstance(value, dict):
            return None
        return {
            key: self.keys[key].with_whole_paths(each, (*loc, key), start, complain)
            for key, each in value.items()
        }

    def as_written(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, dict):
            return value
        return {
            key: self.keys[key].as_written(each)
            for key, each in value.items()
            if each is not None or self.keys[key].or_never
        }

    def from_json(self, value: JsonValue, **others: object) -> T:
        """The named tuple. Absent keys have their defaults; `others` are the fields that are not keys."""
        if not isinstance(value, dict):
            raise UnknownForm
        fields = dict(others)
        for name, shape in self.fields.items():
            if isinstance(shape, Table) and shape.inlined:
                fields[name] = shape.from_json(value)
            elif name in value:
                item = value[name]
                # Null is a value only where None is the default: as an answer to another key, another version wrote it.
                may_be_none = item is None and name in self.defaults and self.defaults[name] is None
                fields[_field(name)] = None if may_be_none else shape.from_json(item)
        if any(_field(name) not in fields for name in self._without_default):
            raise UnknownForm
        return self.of(**fields)

    def to_json(self, value: object) -> dict[str, JsonValue]:
        """What `from_json` reads."""
        stored: dict[str, JsonValue] = {}
        for name, shape in self.fields.items():
            item = getattr(value, _field(name))
            if isinstance(shape, Table) and shape.inlined:
                stored |= shape.to_json(item)
            elif not (self.sparse and name in self.defaults and item == self.defaults[name]):
                stored[name] = None if item is None else shape.to_json(item)
        return stored

    def has_all_keys(self, value: JsonValue) -> bool:
        """Whether every key that this version stores is there, in tables inside too."""
        if not isinstance(value, dict):
            return False
        return self.sparse or all(
            key in value
            and (not isinstance(shape, Table) or value[key] is None or shape.has_all_keys(value[key]))
            for key, shape in self.keys.items()
        )


class NamedTables(Shape):
    """Tables of one shape under names that the operator chooses; read as named tuples with a field `name`."""

    def __init__(self, description: str, name: Text, item: Table[Any], longest: int) -> None:
        super().__init__(description)
        self.name, self.item, self.longest = name, item, longest

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        """The tables by name, each in its intended form or None."""
        if not isinstance(value, dict):
            complain(wrong_kind(loc, value, "a table of named tables", "give each a name of its own"))
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

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        if not isinstance(value, dict):
            return None
        return {
            name: self.item.with_whole_paths(each, (*loc, name), start, complain)
            for name, each in value.items()
        }

    def as_written(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, dict):
            return value
        return {name: self.item.as_written(each) for name, each in value.items()}

    def from_json(self, value: JsonValue) -> object:
        if not isinstance(value, dict):
            raise UnknownForm
        return tuple(self.item.from_json(each, name=name) for name, each in value.items())

    def to_json(self, value: object) -> JsonValue:
        assert isinstance(value, tuple)
        return {each.name: self.item.to_json(each) for each in value}


DEFAULT: Final = "default"


class Placed(NamedTuple):
    """A value in force, and where it was written."""

    value: JsonValue
    file: str
    place: Place | None = None

    @property
    def origin(self) -> str:
        """`file:line`, `environment VARIABLE` or `default`."""
        if self.place is not None:
            return f"{self.file}:{self.place[0]}"
        return self.file if self.file == DEFAULT else f"environment {self.file}"

    def problem(self, loc: Location, message: str, fix: str) -> Problem:
        """A complaint about this value."""
        return Complaint(loc, message, fix).problem(self.file, self.place)


def parts(shape: Shape, value: JsonValue, loc: Location) -> Iterator[tuple[Location, JsonValue]]:
    """The values that a later layer replaces separately, and where they stand: those of a table one by one."""
    if isinstance(shape, NamedTables) and isinstance(value, dict):
        for name, each in value.items():
            yield (*loc, name), each
    elif isinstance(shape, Table) and not shape.is_one_value and isinstance(value, dict):
        # One by one, so that a key that a later file leaves out keeps its value from an earlier one.
        for key, each in value.items():
            yield from parts(shape.keys[key], each, (*loc, key))
    else:
        yield loc, value


def dotted_key(loc: Location) -> str:
    """The key as `Settings.origin` calls it. Names of tables are as they were written, whatever characters are in them."""
    return ".".join(str(part) for part in loc)


def joined(table: Table[Any], values: Mapping[str, JsonValue], prefix: str = "") -> dict[str, JsonValue]:
    """The table whose `parts` are these values, by their dotted names."""
    whole: dict[str, JsonValue] = {}
    for key, shape in table.keys.items():
        name = f"{prefix}{key}"
        below: dict[str, JsonValue] = {}
        if isinstance(shape, NamedTables):
            start = f"{name}."
            below = {each.removeprefix(start): values[each] for each in values if each.startswith(start)}
        elif isinstance(shape, Table) and not shape.is_one_value:
            below = joined(shape, values, f"{name}.")
        if below:
            whole[key] = below
        elif name in values:
            whole[key] = values[name]
    return whole


def _shapes(of: type) -> Iterator[tuple[str, Shape]]:
    """The fields that are keys, with their shapes."""
    for name, annotation in of.__annotations__.items():
        for each in getattr(annotation, "__metadata__", ()):
            if isinstance(each, Shape):
                yield name.rstrip("_"), each


def _field(key: str) -> str:
    """The field of a key. A key that is a word of Python has an underscore behind it."""
    return f"{key}_" if iskeyword(key) else key
