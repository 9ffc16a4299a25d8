"""What the launcher uses instead of modules that take long to import: immutable values, and JSON as text.

The import of `typing` alone takes as long as all that the launcher does of its own before the command runs, so there is no
NamedTuple. A type checker is told to treat these classes as dataclasses, so it still knows their fields and constructors.
The module `json` brings regular expressions with it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, ClassVar, Self, dataclass_transform

    from runward.config.json_value import JsonValue
else:

    def dataclass_transform(**_):  # noqa: ANN003, ANN201  # only for type checkers
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True)
class Value:
    """Its subclasses' annotations are their fields, in order; a class attribute is a field's default."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _needed: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)
        cls._needed = frozenset(name for name in cls._fields if not hasattr(cls, name))

    def __init__(self, *values: object, **named: object) -> None:
        given = dict(zip(self._fields, values, strict=False)) | named
        if len(values) > len(self._fields) or len(given) < len(values) + len(named):
            raise TypeError(f"{type(self).__name__}: more values than fields")
        if missing := self._needed - given.keys():
            raise TypeError(f"{type(self).__name__} lacks {', '.join(sorted(missing))}")
        if named and (unknown := named.keys() - self._fields):
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._asdict() == other._asdict()

    def __hash__(self) -> int:
        return hash(tuple(self._asdict().values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({fields})"

    def _asdict(self) -> dict[str, Any]:
        """All fields by name, in order; as a NamedTuple's."""
        return {name: getattr(self, name) for name in self._fields}

    def _replace(self, **changed: object) -> Self:
        """The same with other values; as a NamedTuple's."""
        return type(self)(**self._asdict() | changed)


_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


def json_text(value: Mapping[str, JsonValue] | JsonValue, indent: str = "\n") -> str:
    """The value as `json.dumps(value, indent=2, ensure_ascii=False)` writes it. Raises ValueError for a number that is not finite."""
    if isinstance(value, dict):
        return _enclosed(
            "{", [f"{_quoted(key)}: {json_text(value[key], indent + '  ')}" for key in value], "}", indent
        )
    if isinstance(value, list | tuple):
        return _enclosed("[", [json_text(each, indent + "  ") for each in value], "]", indent)
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        if value - value != 0:
            raise ValueError(f"{value} is not a JSON number")
        return float.__repr__(value)
    return int.__repr__(value)  # also of a signal, whose own says more


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _enclosed(opening: str, members: Sequence[str], closing: str, indent: str) -> str:
    if not members:
        return opening + closing
    inner = indent + "  "
    return f"{opening}{inner}{f',{inner}'.join(members)}{indent}{closing}"
