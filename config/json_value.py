"""The type of foreign JSON: what any parsed document may hold, before anything more is known about it."""

from typing import TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
"""Any JSON document. Unlike with `Any`, nothing can be done with it before it is checked."""
