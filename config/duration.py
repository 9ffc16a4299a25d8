"""Durations as systemd.time(7) writes them: `30s`, `5min`, `1h30m`, `1h 30min`, `500ms`, `2d`.

A bare number is refused: `90` could mean seconds or minutes.
"""

import math
import re

# The units of systemd.time(7), except months and years, which have no fixed length there either.
_SECONDS_BY_UNIT = {
    **dict.fromkeys(("us", "usec", "µs", "μs"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400),
}
# The longest unit first, so that the `min` of 5min is not read as `m`.
_UNIT = "|".join(sorted(_SECONDS_BY_UNIT, key=lambda unit: (-len(unit), unit)))
_TERM = rf"\+?(?:[0-9]{{1,12}}(?:\.[0-9]{{1,9}})?|\.[0-9]{{1,9}}) *(?:{_UNIT})"

DURATION_PATTERN = rf"^ *{_TERM}(?: *{_TERM})* *$"
"""The grammar as a regular expression that JSON Schema (ECMA 262) and Python read alike."""

MAX_DURATION_S = 36_600 * 86400.0
"""The longest duration that anything here may last, be kept, or be ago: a century."""

_MAX_TEXT = 200

# Texts, compiled by `re` when first needed: most starts of the launcher never read a duration.
_EACH_TERM = rf"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *({_UNIT})(?![a-zµμ])"
_MICROSECONDS = (
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)

DURATION_FIX = "write a number with its unit, as in 30s, 5min, 1h30m or 2d"


class DurationError(ValueError):
    """A text that is not a duration; the message says why, `fix` what to write instead."""

    def __init__(self, message: str, fix: str = DURATION_FIX) -> None:
        super().__init__(message)
        self.fix = fix


def parse_duration(text: str, longest: float = MAX_DURATION_S) -> float:
    """The duration in seconds, to the microsecond; at most `longest`. Raises `DurationError`."""
    if len(text) > _MAX_TEXT:
        raise DurationError(f"is not a duration: {len(text)} characters long")
    if not re.match(DURATION_PATTERN, text) or text.endswith("\n"):
        raise DurationError(_why_not(text))
    # Added up as floats, then rounded: 0.1s and 100ms must be the same duration.
    seconds = sum(float(number) * _SECONDS_BY_UNIT[unit] for number, unit in re.findall(_EACH_TERM, text))
    return check_duration(round(seconds, 6), longest)


def check_duration(seconds: float, longest: float = MAX_DURATION_S) -> float:
    """`seconds`, if a duration may be that long. Raises `DurationError`."""
    if not 0 < seconds <= longest:
        message = f"must be at least 1us and at most {longest / 86_400:.0f}d, not {seconds:g} s"
        raise DurationError(message, "leave it out where there is no limit")
    return seconds


def render_duration(seconds: float) -> str:
    """The duration to the microsecond, as `1h30min`; `parse_duration` reads it back. Raises `DurationError`."""
    if not math.isfinite(seconds) or seconds < 0:
        raise DurationError(f"is not a duration: {seconds!r}")
    rest = round(seconds * 1_000_000)
    parts = []
    for unit, size in _MICROSECONDS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _why_not(text: str) -> str:
    shown = repr(text)
    if not text.strip():
        return "is not a duration: it is empty"
    if re.fullmatch(r"\s*[0-9]+(\.[0-9]*)?\s*", text):
        return f"is not a duration: {shown} has no unit"
    if re.search(r"[0-9] *(months?|M|y|years?)([^a-z]|$)", text):
        return f"is not a duration: {shown}; months and years have no fixed length"
    return f"is not a duration: {shown}"
