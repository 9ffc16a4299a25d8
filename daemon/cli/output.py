"""What commands print: aligned tables and coloured words for people, JSON for programs.

Whatever comes from a run is made safe for a terminal first.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NoReturn

import click

from runward.config.json_value import JsonValue
from runward.config.problem import Problem

_COLOURS: Final = {
    "completed": "green",
    "passed": "green",
    "failed": "red",
    "timed_out": "red",
    "missing": "red",
    "invalid": "red",
    "aborted": "yellow",
    "cancelled": "yellow",
    "partial": "yellow",
    "warning": "yellow",
    "held": "red",
    "running": "cyan",
}


def safe(text: str) -> str:
    """Text without anything that a terminal would obey."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def coloured(word: str, text: str | None = None) -> str:
    """`text` (default: the word itself) in the colour of a status word."""
    colour = _COLOURS.get(word)
    shown = safe(word if text is None else text)
    return click.style(shown, fg=colour) if colour else shown


def print_json(value: JsonValue) -> None:
    """One JSON value; indented for a person, on one line for a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(value, ensure_ascii=False, indent=indent))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under their heads, aligned. Nothing is ever cut."""
    shown = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(click.unstyle(row[column])) for row in shown) for column in range(len(heads))]
    for number, row in enumerate(shown):
        cells = [
            cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True)
        ]
        line = "  ".join(cells).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def iso(at: float | None) -> str | None:
    """Unix seconds as programs read them: ISO 8601, UTC, with Z."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def local(at: float | None) -> str:
    """Unix seconds as people read them: local time with its zone."""
    if at is None:
        return "-"
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def duration(seconds: float | None) -> str:
    """A length of time, short: `1h 02m`, `3m 20s`, `4.2s`."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m"


def fail(message: str, code: int) -> NoReturn:
    """Say on stderr what is wrong and what to do, and end with `code`."""
    click.echo(f"runward: {safe(message)}", err=True)
    sys.exit(code)


def complain(problems: Iterable[Problem]) -> None:
    """Every problem on stderr, one a line."""
    for problem in problems:
        click.echo(problem.render(), err=True)


def wants_colour(choice: str) -> bool | None:
    """Whether to colour: `--color`, then NO_COLOR, then what the terminal is (None)."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return None
