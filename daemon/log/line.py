"""A line of the daemon's log, as JSON and for people. Every value can be logged.

A line is at most `MAXIMUM_LINE` bytes. It contains nothing that looks like a secret, and no control sequences for
terminals.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic_core import to_json

from runward.config.json_value import JsonValue
from runward.handlers.secrets import without_secrets

MAXIMUM_LINE: Final = 64 << 10
"""Bytes. The values of a longer line are cut."""
PRIORITIES: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""The levels, lowest first, with their numbers in syslog(3)."""

_FIRST: Final = ("ts", "level", "event")
_TIMES: Final = frozenset({"at", "before", "since"})
"""Keys whose numbers are times in Unix seconds, as those that end with `_at` are."""
_LONGEST: Final = (2048, 256, 32)
"""Characters of a value in a line that would be too long, each tried in turn."""
_MOST_KEYS: Final = 32
_LONGEST_KEY: Final = 64
_SURELY_READABLE: Final = 4000
"""Bytes. Up to here no number has more digits than Python reads, and nothing is nested too deeply for it."""

Coloured = Callable[[str, str], str]


def render(event: Mapping[str, object]) -> bytes:
    """One line of JSON with its newline, whatever the values are."""
    return _bounded(without_secrets(_as_json(event)))


def render_known(event: Mapping[str, object]) -> bytes:
    """Like `render`, for a line whose keys and values are all known to be ids, numbers and words of our own."""
    return _bounded(_as_json(event))


def _as_json(event: Mapping[str, object]) -> bytes:
    try:
        line = to_json(_with_times(event), inf_nan_mode="strings", fallback=repr)
        if len(line) > _SURELY_READABLE:
            json.loads(line)
    except Exception:  # noqa: BLE001 - a line never raises, and any value may
        return json.dumps({text_of(key): text_of(value) for key, value in event.items()}).encode()
    return line


def _with_times(event: Mapping[str, object]) -> Mapping[str, object]:
    """The line with its times as programs read them: ISO 8601, UTC, with Z."""
    times = {
        key: _iso(value) for key, value in event.items() if isinstance(value, float) and _names_time(key)
    }
    return {**event, **times} if times else event


def _names_time(key: str) -> bool:
    return key in _TIMES or key.endswith("_at")


def _iso(at: float) -> str | float:
    """Unix seconds as ISO 8601; a time outside the calendar stays a number."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return at


def _bounded(line: bytes) -> bytes:
    """The line with its newline, at most `MAXIMUM_LINE` bytes, without control sequences for terminals."""
    if len(line) < MAXIMUM_LINE and (not line.isascii() or b"\x7f" in line):
        line = _escaped(line.decode()).encode()
    return (line if len(line) < MAXIMUM_LINE else _shortened(line)) + b"\n"


def _shortened(line: bytes) -> bytes:
    """All values as texts that are shortened if they are long; if there are many keys, the first and the last."""
    items: list[tuple[str, JsonValue]] = list(json.loads(line).items())
    if len(items) > _MOST_KEYS:
        items = items[: _MOST_KEYS // 2] + items[-_MOST_KEYS // 2 :]
    for longest in _LONGEST:
        texts = {_cut(key, _LONGEST_KEY): _cut(plain(value), longest) for key, value in items}
        line = _escaped(json.dumps(texts)).encode()
        if len(line) < MAXIMUM_LINE:
            break
    return line


def text_of(value: object) -> str:
    """The text of a value, whatever that raises."""
    try:
        return str.__str__(value) if isinstance(value, str) else str.__str__(repr(value))
    except Exception as error:  # noqa: BLE001 - a line never raises, and any value may
        return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _escaped(text: str) -> str:
    """JSON in which control characters for terminals are escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _code_of(each) for each in text)


def _code_of(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def for_people(line: Mapping[str, JsonValue], coloured: Coloured = lambda word, text: text) -> str:
    """A line as a person reads it: local time, level and event, then its keys."""
    level = str(line.get("level"))
    shown = coloured(level, f"{level:<8}")
    told = {key: _local(each) or each if _names_time(key) else each for key, each in line.items()}
    return f"{_local(line.get('ts')) or '-'}  {shown} {message_of(told)}".rstrip()


def message_of(line: Mapping[str, JsonValue]) -> str:
    """The event, then its keys."""
    rest = " ".join([f"{key}={plain(each)}" for key, each in line.items() if key not in _FIRST])
    return _safe(f"{line.get('event')}  {rest}".rstrip())


def plain(value: JsonValue) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else json.dumps(value, ensure_ascii=False)


def _safe(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _local(text: JsonValue) -> str | None:
    """A time of the log as people read it: local, with its zone; None if it is not a time."""
    try:
        return datetime.fromisoformat(str(text)).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    except (ValueError, OverflowError, OSError):
        return None
