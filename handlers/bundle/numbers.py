"""Numbers in foreign JSON: true and false are not numbers."""

from typing import TypeGuard

from runward.config.json_value import JsonValue


def is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: JsonValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
