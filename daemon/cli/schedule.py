"""`runward schedule`: when chains are due, and what an expression means."""

import sys
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from runward.config.json_value import JsonValue
from runward.config.problem import printable
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import pass_settings
from runward.daemon.cli.terminal.options import Moment, json_option, listed
from runward.daemon.cli.terminal.output import Columns, fail, print_json, print_list, print_text, safe
from runward.daemon.configuration.declared_files import machines_zone
from runward.daemon.store import reading
from runward.daemon.views.text import ago, local

if TYPE_CHECKING:
    from runward.config.schedule import Times
    from runward.daemon.views.chains import DeclaredSchedule


@click.group(cls=Group)
def schedule() -> None:
    """Show when chains are due.

    \b
    Example:
      runward schedule next "0 2 * * *" --timezone Europe/Riga
    """


@schedule.command("next")
@click.argument("expression")
@click.option(
    "--timezone",
    metavar="ZONE",
    shell_complete=completing.zones,
    help="The time zone, as in Europe/Riga (default: the machine's).",
)
@click.option("--from", "begin", type=Moment(), help="Show times after this moment (default: now).")
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    metavar="N",
    help="How many times to show.",
)
@json_option()
def next_times(expression: str, timezone: str | None, begin: float | None, count: int, as_json: bool) -> None:
    """Show when an expression is due.

    EXPRESSION is five fields of cron, "every 6h" or "at 2026-12-01T08:00".

    A day on which the clock changes is marked. Exit code 2: EXPRESSION is invalid, or never due.

    \b
    Example:
      runward schedule next "30 2 * * *" --timezone Europe/Riga --count 3
    """
    from runward.config.schedule import ScheduleError, parse_times

    zone = machines_zone() if timezone is None else timezone
    start = float(int(time.time())) if begin is None else begin
    try:
        times = parse_times(expression, zone)
    except ScheduleError as error:
        sys.stderr.write(f"runward: {printable(expression)}\n{' ' * (len('runward: ') + error.at)}^\n")
        fail(f"column {error.at + 1}: {error} ({error.fix})", WRONG_USAGE)
    due: list[float] = []
    moment: float | None = start
    while len(due) < count and moment is not None:
        moment = times.next_after(moment, start)
        if moment is not None:
            due.append(moment)
    if not due:
        fail(f"{expression!r} is never due after {local(start)}", WRONG_USAGE)
    if as_json:
        shown: list[JsonValue] = [_in_zone(each, times).isoformat() for each in due]
        print_json(shown)
    else:
        print_text("\n".join(_line(each, times) for each in due))


def _in_zone(moment: float, times: "Times") -> datetime:
    from runward.config.schedule import zone_called

    return datetime.fromtimestamp(moment, zone_called(times.zone))


def _line(moment: float, times: "Times") -> str:
    at = _in_zone(moment, times)
    return f"{at.strftime('%a')} {at.isoformat(sep=' ')} {times.zone}{_marked(at)}"


def _marked(at: datetime) -> str:
    """What to know of the day of this time: whether the clock is set on it."""
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    step = (midnight + timedelta(days=1)).timestamp() - midnight.timestamp() - 86400
    return f"   the clock is set {'back' if step > 0 else 'forward'} that day" if step else ""


def _next(row: "DeclaredSchedule") -> str:
    due = row.due(time.time())
    return "never" if due is None else f"{local(due)}{_marked(_in_zone(due, row.schedule.times))}"


_COLUMNS: "Final[Columns[DeclaredSchedule]]" = {
    "CHAIN": lambda row: safe(row.chain),
    "SCHEDULE": lambda row: safe(row.schedule.times.text),
    "ZONE": lambda row: row.schedule.times.zone,
    "NEXT": _next,
    "LAST": lambda row: "-" if row.last is None else f"{row.last.result} {ago(row.last.at, time.time())}",
}


@schedule.command("list")
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_schedules(settings: Settings, as_json: bool) -> None:
    """List the chains with schedules, and when each is due next. Also works without a daemon.

    A day on which the clock changes is marked.

    \b
    Example:
      runward schedule list
    """
    from runward.daemon.store.tables import triggers
    from runward.daemon.views.chains import chain_files, declared_schedules, schedule_as_json

    now = time.time()
    with reading.reading(settings.state_dir) as connection:
        known = triggers.schedules(connection)
        schedules = declared_schedules(connection, chain_files(settings), known)
    nothing = "no chain has a schedule"
    print_list(schedules, _COLUMNS, as_json, value=lambda row: schedule_as_json(row, now), nothing=nothing)
