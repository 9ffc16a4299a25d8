"""How values look: times, lengths of time and sizes, JSON, and foreign text in which nothing is invisible."""

import json
import time
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from runward.config.json_value import JsonValue
from runward.handlers.times import iso

UNKNOWN: Final = "?"
"""What is not known: never nothing."""

ESTIMATE: Final = "~"
"""What stands before a cost that the agent did not report."""


def local(at: float | None) -> str:
    """Unix seconds as people read them: local time with its zone."""
    if at is None:
        return "-"
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def ago(at: float | None, now: float) -> str:
    """How long ago that was, in one unit: `3m ago`; `in 3m` for the future."""
    if at is None:
        return "-"
    seconds = abs(now - at)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size:
            count = f"{int(seconds // size)}{unit}"
            return f"in {count}" if at > now else f"{count} ago"
    return "now"


def age(at: float, now: float) -> str:
    """How long ago that was, as a column of a list says it: `10s`, `11m`, `3h`, `2d`."""
    seconds = max(0.0, now - at)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def took(seconds: float) -> str:
    """How long something took, as a column of a list says it: `0.4s`, `20s`, `11m`, `3h`, `2d`."""
    return f"{max(0.0, seconds):.1f}s" if seconds < 10 else age(0.0, seconds)


def clock(at: float, now: float) -> str:
    """A moment in local time; if it is not of today, with its date."""
    moment, today = datetime.fromtimestamp(at).astimezone(), datetime.fromtimestamp(now).astimezone()
    return moment.strftime("%H:%M:%S" if moment.date() == today.date() else "%Y-%m-%d %H:%M:%S")


SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "working": ("●", "*"),
    "idle": ("○", "o"),
    "waiting": ("!", "!"),
    "unknown": ("?", "?"),
    "completed": ("✓", "+"),
    "failed": ("✗", "x"),
    "timed_out": ("✗", "x"),
    "aborted": ("✗", "x"),
    "cancelled": ("–", "-"),  # noqa: RUF001  # it is meant
    "skipped": ("–", "-"),  # noqa: RUF001  # it is meant
    "pending": ("·", "."),
}
"""The sign of each state, and the same in ASCII."""

_LAST: Final = 8
"""Characters of a UUID that are shown: the first ones of Codex's are the same for a minute."""

_UUID: Final = (8, 13, 18, 23)
"""Where a UUID has its hyphens."""


def is_uuid(identifier: str) -> bool:
    """Whether an id has the form of a UUID."""
    return (
        len(identifier) == 36
        and all(identifier[place] == "-" for place in _UUID)
        and all(each in "0123456789abcdefABCDEF-" for each in identifier)
    )


def short_id(identifier: str, ellipsis: str = "…") -> str:
    """An id as people see it: of a UUID its end alone."""
    return f"{ellipsis}{identifier[-_LAST:]}" if is_uuid(identifier) else identifier


def midnight(now: float) -> float:
    """When the day of this moment began, local time (both Unix seconds)."""
    return time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))


def duration(seconds: float | None) -> str:
    """A length of time, short: `2d 03h`, `365d`, `1h 02m`, `3m 20s`, `4.2s`."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02d}h" if hours else f"{days}d"


def lag(seconds: JsonValue) -> str:
    """How long something took that is most often quick: `49 ms`, else as `duration`."""
    if not isinstance(seconds, int | float):
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else duration(seconds)


def size(count: int) -> str:
    """A number of bytes as people read it: `512 B`, `1.2 KB` (1 KB is 1024 B, as in ADR-0029)."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KB", "MB", "GB", "TB"):
        amount /= 1024
        if amount < 1024 or unit == "TB":
            break
    return f"{amount:.1f} {unit}"


def tokens(usage: JsonValue) -> str | None:
    """The tokens of a session, if they are known: `1200 in, 85 out`."""
    return f"{usage['input_tokens']} in, {usage['output_tokens']} out" if isinstance(usage, dict) else None


def fields(row: tuple[Any, ...], names: str) -> dict[str, JsonValue]:
    """These fields of a row (`"id status"`) under their own names, as `--json` prints them: times (`at`, `created_at`) as text."""
    values = {name: getattr(row, name) for name in names.split()}
    return {
        name: iso(value) if name == "at" or name.endswith("_at") else value for name, value in values.items()
    }


def json_text(value: JsonValue, indent: int | None = None) -> str:
    """The value as JSON in which everything that a terminal might obey is escaped, as JSON may escape it.

    A byte of a path that is not UTF-8 is U+0000 and its two hexadecimal digits: no path has a U+0000, and half a
    surrogate pair, which Python has there, is refused by strict readers.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(each if each == "\n" or each.isprintable() else _json_escape(each) for each in text)


def _json_escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\u0000{code - 0xDC00:02x}"
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else json.dumps(character)[1:-1]


def visible(text: str) -> str:
    """The text with every character escaped that is invisible, or that changes the order in which others are seen."""
    return "".join(
        char if char == "\n" or unicodedata.category(char)[0] != "C" else f"\\u{ord(char):04x}"
        for char in text
    )
