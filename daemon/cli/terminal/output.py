"""What commands print: aligned tables and coloured words for people, JSON for programs.

Whatever comes from a run is made safe for a terminal first.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import lru_cache
from typing import Any, Final, NoReturn, TextIO, TypeAlias, TypeVar
from unicodedata import category, combining, east_asian_width

import click

from runward.config.json_value import JsonValue
from runward.config.problem import Problem
from runward.daemon.views.text import json_text

_COLOURS: Final = {
    "completed": "green",
    "passed": "green",
    "ok": "green",
    "done": "green",
    "failed": "red",
    "timed_out": "red",
    "missing": "red",
    "invalid": "red",
    "held": "red",
    "refused": "red",
    "unreadable": "red",
    "error": "red",
    "critical": "red",
    "aborted": "yellow",
    "cancelled": "yellow",
    "partial": "yellow",
    "warning": "yellow",
    "unknown": "yellow",
    "waiting": "cyan",
    "running": "cyan",
}


def safe(text: str) -> str:
    """Text without anything that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


_ESCAPED: Final = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt])")


def unescaped(shown: str) -> str:
    """The text of which `shown` is what a screen has, with what it escaped."""
    return _ESCAPED.sub(lambda match: match[0].encode().decode("unicode_escape"), shown)


def safe_line(text: str) -> str:
    """The same for a line of a log; tabs are left."""
    return "\t".join(map(safe, text.split("\t")))


def coloured(word: str, text: str | None = None) -> str:
    """`text` (default: the word itself) in the colour of a status word."""
    colour = _COLOURS.get(word)
    shown = safe(word if text is None else text)
    return click.style(shown, fg=colour) if colour else shown


STDOUT: Final = "<stdout>"
"""The `filename` of an `OSError` of writing to stdout, so that nothing else is blamed for it."""


def print_json(value: JsonValue) -> None:
    """One JSON value; indented for a person, on one line for a pipe. With `--jq`: its results."""
    _print_json(value, indent=2 if sys.stdout.isatty() else None)


def print_json_line(value: JsonValue) -> None:
    """One JSON value of a stream, on a line of its own, written at once. With `--jq`: its results."""
    _print_json(value, indent=None)


def _print_json(value: JsonValue, indent: int | None) -> None:
    query = printing("query")
    for line in (json_text(value, indent=indent),) if query is None else query.lines(value):
        click.echo(line)


_PRINTING: Final = "runward.printing."


def keep_for_printing(context: click.Context, parameter: click.Parameter, value: object) -> object:
    """Keep the value of an option that only says how to print: no command has to pass it on."""
    assert parameter.name is not None
    context.meta[f"{_PRINTING}{parameter.name}"] = value
    return value


def printing(name: str) -> Any:  # noqa: ANN401  # each option has a type of its own
    """The value of such an option; None if it was not given, or the command has none."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"{_PRINTING}{name}")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under their heads, aligned. Only a terminal that is too narrow cuts them."""
    if is_screen():
        from runward.daemon.cli.terminal.lists import print_columns  # programs do without it

        cells = list(rows)
        print_columns({head: [row[number] for row in cells] for number, head in enumerate(heads)})
        return
    aligned = align([heads, *rows])
    click.secho(aligned[0], bold=True)
    for line in aligned[1:]:
        click.echo(line)


Row = TypeVar("Row")
Columns: TypeAlias = Mapping[str, Callable[[Row], str]]
"""The columns of a table: the head of each, and how a row fills its cell."""


def print_list(
    rows: Sequence[Row],
    columns: Columns[Row],
    as_json: bool,
    *,
    value: Callable[[Row], JsonValue],
    nothing: str,
) -> None:
    """The rows as JSON, by `value`, or as a table; `nothing` is what a person reads if there are none."""
    if as_json:
        print_json([value(row) for row in rows])
    elif not rows:
        print_text(nothing)
    else:
        print_table(tuple(columns), [[cell(row) for cell in columns.values()] for row in rows])


def with_host(columns: Columns[Row], host: str | None) -> Columns[Row]:
    """The columns of what this host has itself, with its own name if that column is asked for."""
    if "HOST" not in (printing("heads") or ()):
        return columns
    return {"HOST": lambda _: safe(host or "-"), **columns}


def is_screen() -> bool:
    """Whether a table is drawn as a screen: on a terminal, and where its columns were asked for."""
    return sys.stdout.isatty() or bool(printing("is_wide") or printing("heads"))


def print_text(text: str) -> None:
    """A safe text; a terminal gets it in lines that fit."""
    for line in fitting(text):
        click.echo(line)


def fitting(text: str) -> list[str]:
    """The lines of a safe text: for a terminal in lines that fit it and with short paths, for a program as they are."""
    if not sys.stdout.isatty():
        return text.split("\n")
    from runward.daemon.cli.terminal.tables import folded  # programs do without it

    return [line for each in at_home(text).split("\n") for line in folded(each, columns_there())]


def home_here() -> str:
    """The person's own directory, without a slash at its end; empty if it is not known."""
    return os.environ.get("HOME", "").rstrip("/")


def at_home(text: str, stream: TextIO | None = None) -> str:
    """The text as people read it, who see `~` instead of their own directory; a program at stdout gets it as it is."""
    return with_tildes(text, home_here()) if (stream or sys.stdout).isatty() else text


def with_tildes(text: str, home: str) -> str:
    """The text in which `~` stands for this directory, wherever a shell takes it so: not in quotes, or inside of a word."""
    if not home or home not in text:
        return text
    pattern = rf"{_QUOTED}|{_BEFORE}{re.escape(home)}(?=[/\s)`,;:.]|$)"
    return re.sub(
        pattern,
        lambda found: found[0] if found["before"] is None else f"{found['before']}~",
        text,
        flags=re.MULTILINE,
    )


_QUOTED: Final = r"""(?<!\w)'[^'\n]*'|(?<!\w)"[^"\n]*\""""
_BEFORE: Final = r"(?P<before>(?:^|(?<=[\s(`]))(?:(?<![\s(])[A-Z_]+=)?)"
"""The begin of a word; of the first one of a command, that of a variable's value."""


def print_lines(lines: Iterable[str], *, is_paged: bool = True) -> None:
    """Print lines as they come; on a terminal in the pager, if they are more than it has room for."""
    # What is there as a whole is written as a whole.
    texts = ["\n".join(lines)] if isinstance(lines, list) else lines
    with in_pager() if is_paged else nullcontext():
        for text in texts:
            click.echo(text)


def in_pager() -> AbstractContextManager[None]:
    """What is printed in the block is shown in the pager, if it is more than the terminal has room for."""
    if not sys.stdout.isatty():
        return nullcontext()
    from runward.daemon.cli.terminal.pager import paged  # programs do without it

    return paged()


def print_one(as_json: bool, value: JsonValue, text: str) -> None:
    """The value as JSON for a program, or the safe text for a person."""
    if as_json:
        print_json(value)
    else:
        print_text(text)


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns."""
    widths = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell + " " * (room - width(cell)) for cell, room in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def width(text: str) -> int:
    """The columns that a terminal shows `text` in."""
    # Colours take no columns; what is written in East Asia takes two for a character.
    plain = click.unstyle(text) if "\x1b" in text else text
    if plain.isascii():
        return len(plain)
    return sum(map(_width, plain))


@lru_cache(1 << 10)
def _width(character: str) -> int:
    if combining(character) or category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


class Failed(SystemExit):
    """A command failed and ends: the message that went to stderr, and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(code)
        self.message = message
        self.exit_code = code


def fail(message: str, code: int) -> NoReturn:
    """Say on stderr what is wrong and what to do, and end with `code`. Raises `Failed`."""
    note(message)
    raise Failed(message, code)


def note(message: str) -> None:
    """Tell the user something on stderr, and continue."""
    say(safe(message))


def say(message: str) -> None:
    """A safe message on stderr; a terminal gets it in lines that fit."""
    tell(message, _OURS, " " * len(_OURS))


_OURS: Final = "runward: "


def complain(problems: Iterable[Problem]) -> None:
    """Every problem on stderr, one per line; a terminal gets them in lines that fit."""
    for problem in problems:
        tell(problem.render())


def tell(message: str, first: str = "", rest: str = "  ") -> None:
    """A safe message on stderr behind `first`; a terminal gets it in lines that fit, the further ones behind `rest`."""
    if not sys.stderr.isatty():
        to_stderr(f"{first}{message}")
        return
    from runward.daemon.cli.terminal.tables import flowed  # programs do without it

    columns = max(NARROWEST, terminal_size(sys.stderr).columns)
    for line in flowed(at_home(message, sys.stderr), first, rest, columns):
        to_stderr(line)


def to_stderr(line: str) -> None:
    """A line on stderr. One that can't be written is lost, and changes nothing: what counts is the exit code."""
    with suppress(OSError):
        click.echo(line, err=True)


def wants_colour(choice: str) -> bool | None:
    """Whether to colour: `--color`, then NO_COLOR, then what the terminal is (None)."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return None


NARROWEST: Final = 20
WIDEST: Final = 120
"""The columns that text is broken to at most: longer lines are hard to read."""

_ENDLESS: Final = 1 << 20
_USUAL: Final = os.terminal_size((80, 24))


def terminal_size(stream: TextIO | None = None) -> os.terminal_size:
    """The size of the terminal that the stream (stdout) is; if it doesn't know its own, the usual one."""
    # A serial line, and a terminal that a program made, may say that they have no columns at all.
    size = os.get_terminal_size((stream or sys.stdout).fileno())
    return size if size.columns and size.lines else _USUAL


def columns_there() -> int:
    """The columns that a line may have: of a terminal its own; elsewhere a line is never broken."""
    return max(NARROWEST, terminal_size().columns) if sys.stdout.isatty() else _ENDLESS


def room() -> int:
    """The columns to write text in: the available ones, within reason."""
    columns = columns_there()
    return columns if columns == _ENDLESS else min(columns, WIDEST)
