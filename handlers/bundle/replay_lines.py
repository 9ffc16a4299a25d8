"""The lines of a replay, read tolerantly: a line that cannot be read is a problem, and reading continues after it."""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import NotCanonical, parse
from runward.handlers.bundle.canonical_line import canonical_object
from runward.handlers.bundle.many_values import MOST_VALUES, has_more_values

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
