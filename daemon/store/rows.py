"""Rows of queries as values: the fields of a named tuple are the columns, and their types say how a value is read.

So columns and fields can't drift apart, and a value whose type is not its field's is an error at once. Commands read
with this, so it imports little.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from runward.config.json_value import JsonValue

R = TypeVar("R", bound=tuple[Any, ...])
V = TypeVar("V")

Read: TypeAlias = Callable[[Any], Any]
"""Makes a field of a stored value."""

_READ: Final[Mapping[object, Mapping[type, Read | None]]] = {
    str: {str: None},
    int: {int: None},
    float: {float: None, int: float},
    bytes: {bytes: None},
    bool: {int: bool},
    NoneType: {NoneType: None},
    JsonValue: {str: json.loads, NoneType: None},
    dict: {str: json.loads},
    Mapping: {str: json.loads},
    list: {str: json.loads},
    tuple: {str: lambda text: tuple(json.loads(text))},
}
"""From which types in the database a field of this type is read, and how. None: the value is taken as it is."""


def columns(row: type[tuple[Any, ...]], of: str = "", /, **worked_out: str | None) -> str:
    """The columns of a named tuple for a query: its fields, in the table called `of`, or what is worked out for a field.

    None leaves a field out that has a default: it must be one of the last.
    """
    names, _ = _fields(row)
    table = f"{of}." if of else ""
    return ", ".join(
        column for name in names if (column := worked_out.get(name, f"{table}{name}")) is not None
    )


def select(
    row: type[tuple[Any, ...]], rest: str, of: str = "", /, *, by: str | None = None, **worked_out: str | None
) -> str:
    """The query for rows of a named tuple: what they are found `by`, its columns, and the rest from `from` on."""
    first = "" if by is None else f"{by}, "
    return f"select {first}{columns(row, of, **worked_out)} {rest}"


def rows_of(row: type[R], rows: Iterable[tuple[Any, ...]], /, **read: Read) -> list[R]:
    """The rows of a query, in order. `row` is a named tuple, or `tuple[str, int]`.

    `read` names fields that have a way of their own to be read. Raises `TypeError` for a value that its field can't have.
    """
    plans = _plans(row, tuple(read.items()))
    made: list[R] = []
    kind, new, append = plans.made_as, tuple.__new__, made.append  # for lists of ten thousand sessions
    for values in rows:
        changes, defaults = plans[tuple(map(type, values))]
        for place, way in changes:
            values = (*values[:place], way(values[place]), *values[place + 1 :])
        append(new(kind, values + defaults))
    return made


def row_of(row: type[R], values: tuple[Any, ...] | None, /, **read: Read) -> R | None:
    """The same for one row; None if there is none."""
    return None if values is None else rows_of(row, [values], **read)[0]


def rows_by_key(row: type[R], rows: Iterable[tuple[Any, ...]], /, **read: Read) -> dict[str, R]:
    """The rows by the text that stands before the columns of each. Of several with the same one, the last."""
    return {key: group[-1] for key, group in groups_of(row, rows, **read).items()}


def groups_of(row: type[R], rows: Iterable[tuple[Any, ...]], /, **read: Read) -> dict[str, tuple[R, ...]]:
    """The rows of each text that stands before their columns, in order."""
    values = [*rows]
    groups: dict[str, list[R]] = {}
    for each, made in zip(values, rows_of(row, (each[1:] for each in values), **read), strict=True):
        groups.setdefault(each[0], []).append(made)
    return {key: tuple(group) for key, group in groups.items()}


def rows_by_attempt(
    row: type[R], rows: Iterable[tuple[Any, ...]], /, **read: Read
) -> dict[tuple[str, int], R]:
    """The rows by the session's key and the attempt that stand before the columns of each; the last of several."""
    values = [*rows]
    made = rows_of(row, (each[2:] for each in values), **read)
    return {(each[0], each[1]): one for each, one in zip(values, made, strict=True)}


def values_of(kind: type[V], rows: Iterable[tuple[Any, ...]]) -> list[V]:
    """The values of a query with one column, in order."""
    values = [value for (value,) in rows]
    # Types are looked at once for the whole column: a list of ten thousand keys is read for one page.
    plans = _plans(tuple[kind], ())  # type: ignore[valid-type]
    ways = {each: next((way for _, way in plans[(each,)][0]), None) for each in {*map(type, values)}}
    if any(ways.values()):
        return [way(value) if (way := ways[type(value)]) else value for value in values]
    return values


def value_of(kind: type[V], values: tuple[Any, ...] | None) -> V | None:
    """The only value of a row; None if there is no row, or its value is null."""
    return None if values is None or values[0] is None else values_of(kind, [values])[0]


def elsewhere(_: None) -> None:
    """The way to read a field whose value stands in other columns of the row."""


class _Plans(dict[tuple[type, ...], tuple[tuple[tuple[int, Read], ...], tuple[object, ...]]]):
    """What is changed in a row whose values have these types, and the defaults of the fields after them.

    Most rows of a query have the same few types. So a row costs one look, and not one for each of its fields.
    """

    def __init__(self, row: type[tuple[Any, ...]], read: Mapping[str, Read]) -> None:
        self.made_as = get_origin(row) or row
        self._read = read
        self._names: tuple[str, ...]
        self._defaults: Mapping[str, object]
        if self.made_as is tuple:
            self._hints = {str(place): hint for place, hint in enumerate(get_args(row))}
            self._names, self._defaults = tuple(self._hints), {}
        else:
            # A type that only a way of its own needs may not be imported where commands read.
            needed = {name: hint for name, hint in row.__annotations__.items() if name not in read}
            self._hints = get_type_hints(
                SimpleNamespace(__annotations__=needed), vars(sys.modules[row.__module__])
            )
            self._names, self._defaults = _fields(row)

    def __missing__(self, kinds: tuple[type, ...]) -> tuple[tuple[tuple[int, Read], ...], tuple[object, ...]]:
        names = self._names
        if not len(names) - len(self._defaults) <= len(kinds) <= len(names):
            raise TypeError(
                f"{self.made_as.__name__} has {len(names)} fields, and a row {len(kinds)} columns"
            )
        ways = [
            self._read.get(name) or self._way(name, kind) for name, kind in zip(names, kinds, strict=False)
        ]
        changes = tuple((place, read) for place, read in enumerate(ways) if read is not None)
        self[kinds] = plan = changes, tuple(self._defaults[name] for name in names[len(kinds) :])
        return plan

    def _way(self, name: str, kind: type) -> Read | None:
        for each in _alternatives(self._hints[name]):
            ways = _ways(each)
            if kind in ways:
                return ways[kind]
        raise TypeError(
            f"{self.made_as.__name__}.{name} is {self._hints[name]}, and the database has {kind.__name__}"
        )


def _fields(row: type[tuple[Any, ...]]) -> tuple[tuple[str, ...], Mapping[str, object]]:
    """The fields of a named tuple, and the defaults of the last ones."""
    return row._fields, row._field_defaults  # type: ignore[attr-defined] # what is passed is a named tuple


def _alternatives(hint: object) -> list[object]:
    """The types that a field may have. A literal is a text."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return [part for each in get_args(hint) for part in _alternatives(each)]
    return [str if origin is Literal else hint]


def _ways(hint: object) -> Mapping[type, Read | None]:
    """How a type is read. A named tuple is an array in JSON, as `as_json` writes it."""
    parts = get_args(hint)
    if get_origin(hint) is tuple and hasattr(parts[0], "_fields"):
        part = parts[0]
        return {str: lambda text: tuple(part(*each) for each in json.loads(text))}
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return {str: lambda text: hint(*json.loads(text))}
    return _READ.get(get_origin(hint) or hint, {})


@lru_cache(256)
def _plans(row: type[tuple[Any, ...]], read: tuple[tuple[str, Read], ...]) -> _Plans:
    return _Plans(row, dict(read))
