"""Times in replays and receipts: ISO 8601 with an offset or Z, and with a fraction as long as Rust writes it."""

import re
from datetime import UTC, datetime
from typing import Final

from runward.config.json_value import JsonValue

_MOMENT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?\s?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)


def moment_of(text: JsonValue) -> datetime | None:
    """The time that a text names, to the microsecond; without an offset it is UTC. None if it names no time."""
    if not isinstance(text, str) or len(text) > 64:
        return None
    if text[10:11] == "T" and text[-1:] == "Z":  # nearly all of them
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    whole, fraction, offset = found.groups()
    zone = "+00:00" if offset is None or offset in "Zz" else offset
    try:
        moment = datetime.fromisoformat(f"{whole.replace(' ', 'T').upper()}{zone}")
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment.replace(microsecond=int((fraction or "0").ljust(6, "0")[:6]))
