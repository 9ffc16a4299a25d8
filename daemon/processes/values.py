"""Immutable values for the launcher, which must not import `typing`, and so has no NamedTuple.

That import alone takes as long as all that the launcher does of its own before the command runs. A type checker
is told to treat these classes as dataclasses, so it still knows their fields and constructors.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_):  # noqa: ANN003, ANN201  # only for type checkers
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True)
class Value:
    """Its subclasses' annotations are their fields, in order; a class attribute is a field's default."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, *values: object, **named: object) -> None:
        given = dict(zip(self._fields, values, strict=False)) | named
        if len(values) > len(self._fields) or len(given) < len(values) + len(named):
            raise TypeError(f"{type(self).__name__}: more values than fields")
        for name in self._fields:
            if name not in given and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} lacks {name}")
        if unknown := given.keys() - self._fields:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._asdict() == other._asdict()

    def __hash__(self) -> int:
        return hash(tuple(self._asdict().values()))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({said})"

    def _asdict(self) -> dict[str, Any]:
        """All fields by name, in order; as a NamedTuple's."""
        return {name: getattr(self, name) for name in self._fields}

    def _replace(self, **changed: object) -> Self:
        """The same with other values; as a NamedTuple's."""
        return type(self)(**self._asdict() | changed)
