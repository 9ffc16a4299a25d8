"""The type of foreign JSON: what any parsed document may hold, before it is known to be anything else."""

from typing import TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
"""Any JSON document. Unlike `Any`, nothing can be done with it that was not checked first."""
