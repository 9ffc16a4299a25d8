"""`runward` alone: what needs a person, what works, what ended, on one screen."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

import click

from runward.config.settings import Settings
from runward.daemon.cli.session.table import what_of
from runward.daemon.cli.shell.context import SET_UP, first_command
from runward.daemon.cli.status import code_of, why_not_running
from runward.daemon.cli.terminal.output import coloured, width, with_tildes
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import Column, flowed, flowed_part, table_rows
from runward.daemon.store import reading
from runward.daemon.store.tables.approvals import ApprovalRow
from runward.daemon.views.home import Home, home_of
from runward.daemon.views.needs import Need, table
from runward.daemon.views.rows import Row
from runward.daemon.views.text import age
from runward.handlers.times import moment_of

_ROWS: Final = 24
_MOST_FAILURES: Final = 3
_MOST_NEEDS: Final = 9
_MOST_WORKING: Final = 6
_LINES_OF_AN_APPROVAL: Final = 3
_HELP: Final = "runward --help"
_NEXT: Final = ("runward why ID", "runward top", "runward session list", _HELP)


def show_home(settings: Settings, say_what_is_wrong: Callable[[], None]) -> NoReturn:
    """Print the screen, and exit as `status` does. What is wrong with the settings is said below it, if it isn't shown."""
    terminal = terminal_here()
    with reading.reading(settings.state_dir) as connection:
        home = home_of(connection, settings, terminal.now)
    first = None if reading.exists(settings.state_dir) else first_command(settings.state_dir)
    click.echo("\n".join(lines_of(home, settings.state_dir, terminal, first)))
    if not table(home.status["settings"])["refused"]:
        say_what_is_wrong()
    sys.exit(code_of(home.status))


def lines_of(home: Home, state: str, terminal: Terminal, first: str | None = None) -> list[str]:
    """The screen. It leaves a row for the prompt that follows. `first` is the command that has to come before all others."""
    room = min(terminal.rows, _ROWS) - 1
    said = with_tildes(_headline(home, state, terminal, first), terminal.home)
    head = list(flowed(said, "", "  ", terminal.columns))
    commands = _NEXT if first is None else (first, _HELP)
    last = list(flowed(f"Next: {terminal.between.join(commands)}", "", "      ", terminal.columns))
    needs, working = _needs(home, terminal), _working(home, terminal)
    lines = [*head]
    for title, section in (("Needs you", needs), ("Working", working)):
        lines += ["", click.style(title, bold=True), *section] if section else []
    needing = {row.key for row in home.failures}
    ended = [row for row in home.ended if row.key not in needing]
    left = room - len(lines) - len(last) - 3
    if ended and left > 0:
        lines += ["", click.style("Ended", bold=True), *_rows(ended[:left], terminal)]
    return [*lines, "", *last]


def _headline(home: Home, state: str, terminal: Terminal, first: str | None) -> str:
    counts = (
        (home.count("waiting"), "waiting for you"),
        (home.count("working"), "working"),
        (home.count("idle"), "idle"),
        (home.count("unknown"), "unknown"),
        (home.failed, "failed"),
    )
    status = home.status
    told = [f"{count} {words}" for count, words in counts if count]
    if not told and status["running"]:
        told = ["all is well"]
    if home.used_today is not None:
        told.append(f"{home.used_today.in_dollars()} today{home.used_today.at_prices()}")
    what = ", ".join(told)
    since = moment_of(status["since"])
    up = "" if since is None else f" ({age(since, terminal.now)})"
    if first == SET_UP and not status["running"] and not isinstance(status["elsewhere"], dict):
        return f"Runward is {coloured('failed', 'not running')}: set it up with `{SET_UP}`. {what}".rstrip()
    if not status["running"]:
        why = why_not_running(status, state)
        return f"Runward is {coloured('failed', 'not running')}: {why}. {what}".rstrip()
    word = "running" if status["stalled_s"] is None else coloured("failed", "stalled")
    return f"Runward is {word}{up}: {what}"


def _needs(home: Home, terminal: Terminal) -> list[str]:
    """What needs a person, as far as there is room; the rest is counted."""
    things = [_approval(each, terminal) for each in home.approvals]
    things += [[line] for line in _rows(home.waiting_agents, terminal)]
    things += [[line] for line in _failures(home, terminal)]
    things += [_further(each, terminal) for each in home.others]
    lines: list[str] = []
    for number, each in enumerate(things):
        is_last = number == len(things) - 1
        if lines and len(lines) + len(each) + (not is_last) > _MOST_NEEDS:
            more = f"{terminal.sign('waiting')} {len(things) - number} more"
            return [*lines, *_with_command([more], "runward status", terminal)]
        lines += each
    return lines


def _further(need: Need, terminal: Terminal) -> list[str]:
    lines = list(flowed(terminal.text(need.text), f"{terminal.sign('waiting')} ", "    ", terminal.columns))
    return [*lines, *flowed(terminal.text(need.fix), "    ", "    ", terminal.columns)] if need.fix else lines


def _approval(row: ApprovalRow, terminal: Terminal) -> list[str]:
    from runward.daemon.views.chain_rows import WHOLE_APPROVALS, command_asked  # seldom does anything ask

    asked = f"{row.chain}/{row.step_id()} asks for approval ({age(row.asked_at, terminal.now)}): {command_asked(row)}"
    sign = f"{terminal.sign('waiting')} "
    lines, is_cut = flowed_part(
        terminal.command(asked), sign, "    ", terminal.columns, _LINES_OF_AN_APPROVAL, terminal.ellipsis
    )
    # An approval holds only for what was shown: of what is not here to its end, only the rest is offered.
    command = f"All: {WHOLE_APPROVALS}" if is_cut else f"runward chain approve {shlex.quote(row.id)}"
    return _with_command(lines, command, terminal)


def _with_command(lines: Sequence[str], command: str, terminal: Terminal) -> list[str]:
    """The lines with a command to copy at the right of the last one, or below it if there is no room."""
    gap = terminal.columns - width(lines[-1]) - width(command)
    if gap >= 2:
        return [*lines[:-1], f"{lines[-1]}{' ' * gap}{command}"]
    return [*lines, *flowed(command, "    ", "    ", terminal.columns)]


def _failures(home: Home, terminal: Terminal) -> Iterator[str]:
    shown = home.failures[:_MOST_FAILURES]
    yield from _table(
        [
            Column("", _names(shown, terminal)),
            Column("", [age(row.at, terminal.now) for row in shown], 1),
            Column("", [_failure(row, terminal) for row in shown]),
        ],
        terminal,
    )
    more = home.failed - len(shown)
    if more > 0:
        line = f"{terminal.sign('failed')} {more} more"
        yield from _with_command([line], "runward session list --failed", terminal)


def _failure(row: Row, terminal: Terminal) -> str:
    where = (row.directory or "").rstrip("/").rpartition("/")[2]
    agent = f"{row.purpose} in {where}: " if where and row.usage is not None and row.purpose else ""
    return terminal.text(f"{agent}{row.what}")


def _working(home: Home, terminal: Terminal) -> list[str]:
    rows = [row for row in home.open if row.state != "waiting"]
    lines = list(_rows(rows[:_MOST_WORKING], terminal))
    if len(rows) > _MOST_WORKING:
        more = f"{terminal.sign('working')} {len(rows) - _MOST_WORKING} more"
        lines += _with_command([more], "runward session list", terminal)
    return lines


def _rows(rows: Sequence[Row], terminal: Terminal) -> list[str]:
    return _table(
        [
            Column("", _names(rows, terminal)),
            Column("", [age(row.at, terminal.now) for row in rows], 1),
            Column("", [terminal.text(row.purpose or "-") for row in rows], 2),
            Column("", [what_of(row, terminal, has_directory=False) for row in rows]),
        ],
        terminal,
    )


_USUAL_NAME: Final = 17
"""Columns that names have at least, so that the parts of the screen stand below each other."""


def _names(rows: Sequence[Row], terminal: Terminal) -> list[str]:
    least = _USUAL_NAME if terminal.columns >= _USUAL else 0
    return [f"{terminal.sign(row.state)} {terminal.id(row.id):<{least}}" for row in rows]


_USUAL: Final = 80


def _table(columns: Sequence[Column], terminal: Terminal) -> list[str]:
    return table_rows(columns, terminal.columns, terminal.ellipsis) if columns[0].cells else []
