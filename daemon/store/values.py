"""Values on their way into a query and out of a row: the schema's tables are STRICT, so a row's types are known."""

import json
from collections.abc import Iterable


def listed(values: Iterable[object]) -> str:
    """Values as one parameter, for `json_each(?)`."""
    return json.dumps(list(values), ensure_ascii=False)


def as_int(value: object) -> int:
    assert isinstance(value, int)
    return value


def as_float(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def as_bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def stored_text(value: object) -> str:
    """A text that was read as bytes, so that one damaged text doesn't make the whole query fail."""
    return as_bytes(value).decode(errors="replace")
