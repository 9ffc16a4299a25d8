"""`runward log`: the daemon's structured log, as it lies in the state directory."""

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli import completing, following
from runward.daemon.cli.context import settings_in_force, store_to_read
from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.finding import find_session
from runward.daemon.cli.moments import Moment
from runward.daemon.cli.output import coloured, fail, local, print_json, print_json_line, safe
from runward.daemon.rundir.tailing import Line, Tail
from runward.handlers.layouts.foreign_json import parse_time

_LOG: Final = "log/runward.jsonl"
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_FIRST: Final = ("ts", "level", "event")
_SHOWN_BEFORE: Final = 10
"""Lines before those that `-f` waits for, as with tail(1) and journalctl(1)."""


class Wanted(NamedTuple):
    """Which lines are printed: from a level on, about a session (its key), since a moment."""

    level: str | None
    session: str | None
    since: float | None

    def has(self, line: Mapping[str, JsonValue]) -> bool:
        """Whether a line is one of them."""
        level = line.get("level")
        if self.level is not None and (
            level not in _LEVELS or _LEVELS.index(str(level)) < _LEVELS.index(self.level)
        ):
            return False
        if self.session is not None and self.session not in (line.get("session"), line.get("lane")):
            return False
        if self.since is None:
            return True
        at = parse_time(line.get("ts"))
        return at is not None and at >= self.since


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Print lines as they come, until it is interrupted.")
@click.option(
    "--session", metavar="ID", shell_complete=completing.sessions, help="Only lines about this session."
)
@click.option("--level", type=click.Choice(_LEVELS), help="Only lines of this level and above.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only lines since: 2h, today, a date.")
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the last N lines (default: all; with -f the last 10).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list, or with -f a value a line.")
@click.pass_context
def log(
    context: click.Context,
    follow: bool,
    session: str | None,
    level: str | None,
    since: float | None,
    count: int | None,
    as_json: bool,
) -> None:
    """The daemon's structured log.

    \b
    Example:
      runward log --level warning --since 2h
    """
    settings = settings_in_force(context)
    key = None
    if session is not None:
        with store_to_read(settings) as connection:
            key = find_session(connection, session)
    wanted = Wanted(level, key, since)
    path = os.path.join(settings.state_dir, _LOG)
    tail = _open(path)
    if follow:
        _follow(path, tail, wanted, _SHOWN_BEFORE if count is None else count, as_json)
        return
    values = _wanted(_so_far(path, tail), wanted)
    shown = values if count is None else iter(deque(values, maxlen=count))
    if as_json:
        print_json(list(shown))
        return
    for value in shown:
        click.echo(text_of(value))


def _follow(path: str, tail: Tail, wanted: Wanted, count: int, as_json: bool) -> None:
    before = deque(_wanted(_so_far(path, tail), wanted), maxlen=count)
    after = _wanted(following.follow(tail, None, lambda: False), wanted)
    for values in (before, after):
        for value in values:
            if as_json:
                print_json_line(value)
            else:
                click.echo(text_of(value))


def _open(path: str) -> Tail:
    try:
        return Tail(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        fail(f"there is no log {path} yet: no daemon has run here", NOT_FOUND)


def _so_far(path: str, tail: Tail) -> Iterator[Line]:
    """What the log says: the part that was set aside first."""
    try:
        aside = Tail(lambda: os.open(f"{path}.1", os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        pass
    else:
        yield from following.once(aside, None)
        aside.close()
    yield from tail.lines()


def _wanted(lines: Iterable[Line], wanted: Wanted) -> Iterator[dict[str, JsonValue]]:
    """The lines that are wanted; one that a full disk tore says nothing."""
    for line in lines:
        try:
            value = json.loads(line.content)
        except ValueError:
            continue
        if isinstance(value, dict) and wanted.has(value):
            yield value


def text_of(line: Mapping[str, JsonValue]) -> str:
    """A line of the log for a terminal: time, level and event first, then its keys."""
    at = parse_time(line.get("ts"))
    level = str(line.get("level"))
    shown = coloured(level, f"{level:<8}")
    rest = " ".join(
        f"{safe(key)}={safe(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False))}"
        for key, each in line.items()
        if key not in _FIRST
    )
    return f"{local(at)}  {shown} {safe(str(line.get('event')))}  {rest}".rstrip()
