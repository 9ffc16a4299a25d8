"""Lines of a journal, for people and for programs. No matter who wrote them, they are read as hostile."""

from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.output import safe
from runward.daemon.rundir.tailing import Line
from runward.daemon.views.text import local
from runward.handlers.foreign_json import NotJson, parse_time, read_json

_SHOWN: Final = 200
"""Characters of a value that a person is shown."""

_FIRST: Final = ("ts", "role", "event", "path")


def value_of(line: Line) -> JsonValue | NotJson:
    """The value of a line, or why it has none."""
    if line.is_cut:
        return NotJson("it is too long")
    value = read_json(line.content)
    return NotJson(value.message) if isinstance(value, NotJson) else value


def text_of(line: Line) -> str:
    """The line for a terminal: time, role, event and path first, then the rest; no control characters."""
    value = value_of(line)
    if isinstance(value, NotJson):
        raw = line.content.decode("utf-8", "backslashreplace")
        return f"{_short(raw)}  {click.style(f'(line {line.number}: {value.message})', fg='yellow')}"
    if not isinstance(value, dict):
        return (
            f"{_short(line.content.decode())}  {click.style(f'(line {line.number}: no object)', fg='yellow')}"
        )
    at = parse_time(value.get("ts"))
    when = local(at) if at is not None else _short(_said(value.get("ts")))
    role, event, path = (_short(_said(value.get(key))) for key in _FIRST[1:])
    rest = [f"{safe(key)}={_short(_said(each))}" for key, each in value.items() if key not in _FIRST]
    return "  ".join(word for word in (when, f"{role:<8}", event, path, " ".join(rest)) if word)


def _said(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    import json

    return "-" if value is None else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    return safe(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
