"""`runward log`: the daemon's structured log, from its files and from the systemd journal."""

import heapq
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.log.files import LogFiles
from runward.daemon.cli.log.journal import JournalledLines
from runward.daemon.cli.log.wanted import LEVELS, Wanted
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import find_session
from runward.daemon.cli.terminal import following
from runward.daemon.cli.terminal.output import coloured, fail, print_json, print_json_line
from runward.daemon.cli.terminal.times import Moment
from runward.daemon.disk.state_rights import naming_its_user
from runward.daemon.log.line import for_people
from runward.handlers.foreign_json import parse_time

_SHOWN_BEFORE: Final = 10
"""Lines before those that `-f` waits for, as with tail(1) and journalctl(1)."""

_Line = dict[str, JsonValue]


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come, until Ctrl-C.")
@click.option(
    "--session", metavar="ID", shell_complete=completing.sessions, help="Show only lines about this session."
)
@click.option("--level", type=click.Choice(LEVELS), help="Show only lines of this level and above.")
@click.option("--since", type=Moment(), metavar="TIME", help="Show only lines since then: 2h, today, a date.")
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.events,
    help="Show only lines of this event, or a glob: 'journal.*'. May be given several times.",
)
@click.option(
    "-n",
    "--lines",
    "--limit",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show only the last N lines (default: all; with -f the last 10).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list, or with -f one value a line.")
@click.pass_context
def log(
    context: click.Context,
    follow: bool,
    session: str | None,
    level: str | None,
    since: float | None,
    events: tuple[str, ...],
    count: int | None,
    as_json: bool,
) -> None:
    """Show the daemon's log.

    \b
    Example:
      runward log --level warning --since 2h
    """
    settings = settings_in_force(context)
    key = None
    if session is not None:
        with store_to_read(settings) as connection:
            key = find_session(connection, settings, session).key
    wanted = Wanted(level, key, since, events)
    if follow and count is None:
        count = _SHOWN_BEFORE
    with naming_its_user(Path(settings.state_dir)):
        log = Log(settings.state_dir, wanted, count)
        is_there = log.is_there
    if not is_there:
        fail(f"there is no log in {settings.state_dir}/log yet: no daemon has run here", NOT_FOUND)
    if as_json and not follow:
        print_json(list(log.so_far()))
        return
    for lines in (log.so_far(), log.followed()) if follow else (log.so_far(),):
        for line in lines:
            if as_json:
                print_json_line(line)
            else:
                click.echo(for_people(line, coloured))


class Log:
    """The wanted lines of one state directory, in the order of their times, wherever they went."""

    def __init__(self, state_dir: str, wanted: Wanted, count: int | None) -> None:
        self._wanted = wanted
        self._count = count
        self._files = LogFiles(state_dir)
        self._journal = JournalledLines(state_dir, wanted, count)

    @property
    def is_there(self) -> bool:
        return self._files.is_there or self._journal.is_there

    def so_far(self) -> Iterator[_Line]:
        """What was logged up to now; with a count, the last of it."""
        both = heapq.merge(_timed(self._files.so_far()), _timed(self._journal.so_far()), key=_time)
        lines = (line for _, line in both if self._wanted.has(line))
        return lines if self._count is None else iter(deque(lines, maxlen=self._count))

    def followed(self) -> Iterator[_Line]:
        """What is logged from then on, endlessly."""
        while True:
            for place in (self._files, self._journal):
                yield from (line for line in place.added() if self._wanted.has(line))
            time.sleep(following.PERIOD)


def _timed(lines: Iterable[_Line]) -> Iterator[tuple[float, _Line]]:
    """Each line with its time, or the previous line's if it has none."""
    last = 0.0
    for line in lines:
        at = parse_time(line.get("ts"))
        last = last if at is None else at
        yield last, line


def _time(timed: tuple[float, _Line]) -> float:
    return timed[0]
