"""A line that is already canonical, as Runward writes it: read at once, and each value's text is a piece of the line.

If writing what was read gives the line again, reading lost nothing: no key is there twice and no number was
written differently. So no strict reader is needed, and nothing has to be written again for its hash.
"""

from typing import Final

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import has_plain_numbers, is_deeper_than

_DECODE: Final = msgspec.json.Decoder().decode
_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode


def canonical_object(line: bytes, max_depth: int) -> dict[str, JsonValue] | None:
    """The object on the line if the line is its canonical text in the seed's form, else None."""
    try:
        value: JsonValue = _DECODE(line)
        if not isinstance(value, dict) or _ENCODE(value) != line:
            return None
    except (ValueError, RecursionError):
        return None  # the strict reader reports what is wrong with it
    return value if has_plain_numbers(value) and not is_deeper_than(value, max_depth) else None


def piece_of(line: bytes, event: dict[str, JsonValue], key: str) -> memoryview:
    """The canonical text of the value of `key`, as a view into the canonical line."""
    before = {each: value for each, value in event.items() if each < key}
    after = {each: value for each, value in event.items() if each > key}
    name = _ENCODE(key)
    # without its closing or opening brace, each ends or begins with a comma if it has any content
    begins = len(_ENCODE(before)) - 1 + bool(before) + len(name) + 1
    ends = len(line) - (len(_ENCODE(after)) - 1 + bool(after))
    return memoryview(line)[begins:ends]
