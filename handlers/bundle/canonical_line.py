"""A line that is already canonical, as Runward writes it: read at once, and each value's text is a piece of the line.

If writing what was read gives the line again, reading lost nothing: no key is there twice and no number was
written differently. So no strict reader is needed, and nothing has to be written again for its hash.
"""

from typing import Final

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import SIMPLE, is_plain_number

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
    return value if _is_plain(value, max_depth) else None


def _is_plain(value: dict[str, JsonValue], max_depth: int) -> bool:
    """Whether its numbers are plain, and it is not nested too deeply: one walk tells both."""
    level: list[dict[str, JsonValue] | list[JsonValue]] = [value]
    for _ in range(max_depth):
        below: list[dict[str, JsonValue] | list[JsonValue]] = []
        for container in level:
            items = container.values() if isinstance(container, dict) else container
            if SIMPLE.issuperset(map(type, items)):
                continue
            for item in items:
                if type(item) in SIMPLE:
                    continue
                if isinstance(item, dict | list):
                    below.append(item)
                elif isinstance(item, int | float) and not is_plain_number(item):
                    return False
        if not below:
            return True
        level = below
    return False


def piece_of(line: bytes, event: dict[str, JsonValue], key: str) -> memoryview:
    """The canonical text of the value of `key`, as a view into the canonical line, whose keys are in order."""
    items, index = list(event.items()), list(event).index(key)
    before, after = dict(items[:index]), dict(items[index + 1 :])
    name = _ENCODE(key)
    # without its closing or opening brace, each ends or begins with a comma if it has any content
    begins = len(_ENCODE(before)) - 1 + bool(before) + len(name) + 1
    ends = len(line) - (len(_ENCODE(after)) - 1 + bool(after))
    return memoryview(line)[begins:ends]
