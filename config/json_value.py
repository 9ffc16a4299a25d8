"""The type of foreign JSON: what any parsed document may hold, before anything more is known about it."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
    """Any JSON document. Unlike with `Any`, nothing can be done with it before it is checked."""
else:
    JsonValue = Any  # what reads stored values takes any JSON there
