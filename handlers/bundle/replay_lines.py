"""The lines of a replay, read tolerantly: a line that cannot be read is a problem, and reading continues after it.

Also the numbers and times in replays and receipts, which others may have written.
"""

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeGuard

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import NotCanonical, canonical_object, parse

MOST_VALUES: Final = 2_000_000
"""Values and keys of a line that are read."""
OF_A_LINE: Final = 1000
"""Values that a line may have besides the params or the output that it shows."""

_STRING_OR_BEGIN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{,]', re.DOTALL)


def has_more_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Whether the text has this many values and keys. Only those outside of strings count."""
    if len(text) <= most or text.count(b",") + text.count(b"[") + text.count(b"{") <= most:
        return False  # every value begins with one of the three; some may be in strings
    count = 0
    for token in _STRING_OR_BEGIN.finditer(text):
        count += text[token.start()] != 0x22
        if count > most:
            return True
    return False


LONGEST_LINE: Final = 64 << 20
"""Bytes of a line that are read."""
MAX_DEPTH: Final = 64

Event = dict[str, JsonValue]


class RawLine(NamedTuple):
    """A line without its newline; `content` is None if it is longer than `LONGEST_LINE`."""

    number: int
    content: bytes | None


class ReplayLine(NamedTuple):
    """An event, or what is wrong with its line. A blank line has neither.

    `text` is the line if it is canonical in the seed's form.
    """

    number: int
    event: Event | None
    problem: str | None = None
    text: bytes | None = None


def read_line(line: RawLine) -> ReplayLine:
    """One line of a replay."""
    if line.content is None:
        return ReplayLine(line.number, None, f"longer than {LONGEST_LINE >> 20} MiB: it is not read")
    if not line.content.strip():
        return ReplayLine(line.number, None)
    if has_more_values(line.content):
        return ReplayLine(line.number, None, f"more than {MOST_VALUES:,} values: it is not read")
    known = canonical_object(line.content, MAX_DEPTH)
    if known is not None:
        return ReplayLine(line.number, known, None, line.content)
    try:
        value = parse(line.content, MAX_DEPTH)
    except NotCanonical as refused:
        place = f"column {refused.column}: " if refused.column is not None else ""
        return ReplayLine(line.number, None, f"{place}{refused.message}")
    if not isinstance(value, dict):
        return ReplayLine(line.number, None, "not a JSON object")
    return ReplayLine(line.number, value)


def is_header(event: Event) -> bool:
    """Whether this is the header line of later replays: `{"replay_version": 1, "producer": …}`."""
    return event.get("event") == "ReplayHeader" or ("event" not in event and "replay_version" in event)


def is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: JsonValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


_MOMENT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?\s?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)


def datetime_of(text: JsonValue) -> datetime | None:
    """The time that a text names, to the microsecond; without an offset it is UTC. None if it names no time."""
    if not isinstance(text, str) or len(text) > 64:
        return None
    if text[10:11] == "T" and text[-1:] == "Z":  # nearly all of them
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    whole, fraction, offset = match.groups()
    zone = "+00:00" if offset is None or offset in "Zz" else offset
    try:
        moment = datetime.fromisoformat(f"{whole.replace(' ', 'T').upper()}{zone}")
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment.replace(microsecond=int((fraction or "0").ljust(6, "0")[:6]))
