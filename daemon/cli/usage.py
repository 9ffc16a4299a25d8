"""`runward usage`: what agents' replies used, and what that costs."""

import os
import time
from typing import Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.session.filters import session_filters
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal.lists import lines_asked_for
from runward.daemon.cli.terminal.options import Moment, json_option, listed
from runward.daemon.cli.terminal.output import print_json, print_lines, printing, safe
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import Column, flowed
from runward.daemon.store.tables.session_lists import Wanted
from runward.daemon.views.text import midnight, short_id
from runward.daemon.views.usage import KINDS, Asked, UsageTable, prices_in_words, usage_of

_DAY: Final = 86_400.0
_SUMS: Final = ("SESSIONS", "INPUT", "CACHED", "OUTPUT", "COST")


@click.command()
@click.option(
    "--by", type=click.Choice(KINDS), default="day", show_default=True, help="Show a row for each of these."
)
@click.option(
    "--since",
    type=Moment(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Count replies since then: 2h, today, a date.",
)
@click.option("--until", type=Moment(), metavar="TIME", help="Count replies before then (default: now).")
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    shell_complete=completing.models,
    help="Count only replies of this model.",
)
@session_filters
@listed((*(each.upper() for each in KINDS), *_SUMS))
@json_option()
@pass_settings
def usage(
    settings: Settings,
    by: str,
    since: float,
    until: float | None,
    models: tuple[str, ...],
    wanted: Wanted,
    as_json: bool,
) -> None:
    """Show what agents' replies used, and what that costs at list prices.

    INPUT contains what was read from the cache (CACHED) and written to it. Days are those of local time. Prices are
    applied when they are shown; [prices."MODEL"] in the settings has those of your own.

    \b
    Example:
      runward usage
      runward usage --by project --since today
      runward usage --by session --model claude-opus-4-8
    """
    others = {each.upper() for each in KINDS} - {by.upper()}
    if strangers := others.intersection(printing("heads") or ()):
        raise click.UsageError(f"a table by {by} has no column {min(strangers)} (name it with --by, too)")
    now = time.time()
    asked = Asked(by, since, now if until is None else until, wanted, models)
    with store_to_read(settings) as connection:
        table = usage_of(connection, settings, asked)
    if as_json:
        print_json(table.as_json())
        return
    print_lines(_lines(table, now, until is None, terminal_here()))


def _lines(table: UsageTable, now: float, is_until_now: bool, terminal: Terminal) -> list[str]:
    by = table.asked.by
    total = f"Total, {_stretch(table.asked, now, is_until_now)}"
    sums = [*(each for _, each in table.rows), table.total]
    sessions, given, cached, output, cost = _SUMS
    columns = [
        Column(by.upper(), [*(_name(table, key, terminal) for key, _ in table.rows), total]),
        _numbers(sessions, [f"{each.sessions:,}" for each in sums], 2),
        _numbers(given, [f"{each.input:,}" for each in sums]),
        _numbers(cached, [f"{each.cache_read:,}" for each in sums], 1),
        _numbers(output, [f"{each.output:,}" for each in sums]),
        _numbers(cost, [each.in_dollars() for each in sums]),
    ]
    lines = lines_asked_for(columns, terminal.columns, terminal.ellipsis)
    for sentence in _notes(table, terminal):
        lines += flowed(sentence, "", "", terminal.columns)
    return lines


def _numbers(head: str, cells: list[str], order: int = 0) -> Column:
    """A column whose cells and head stand at its right."""
    room = max(map(len, (head, *cells)))
    return Column(head.rjust(room), [each.rjust(room) for each in cells], order)


def _name(table: UsageTable, key: str | None, terminal: Terminal) -> str:
    shown = table.shown.get(key, key)
    if shown is None:
        return "?" if table.asked.by in ("model", "project") else "-"
    home = os.path.expanduser("~")
    if table.asked.by == "project" and (shown == home or shown.startswith(f"{home}/")):
        shown = f"~{shown.removeprefix(home)}"
    return _text(shown if terminal.is_pipe else short_id(shown, terminal.ellipsis), terminal)


def _text(foreign: str, terminal: Terminal) -> str:
    """What a terminal can show; a program gets what is not ASCII as it is."""
    return safe(foreign) if terminal.is_pipe else terminal.text(foreign)


def _stretch(asked: Asked, now: float, is_until_now: bool) -> str:
    """What stretch of time was asked for, in words."""
    if is_until_now and abs(asked.since - midnight(now)) < 1:
        return "today"
    days = (now - asked.since) / _DAY
    if is_until_now and round(days) >= 1 and abs(days - round(days)) < 0.001:
        return f"{round(days)} day{'s' if round(days) > 1 else ''}"
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(asked.since))
    if is_until_now:
        return f"since {since}"
    return f"{since} to {time.strftime('%Y-%m-%d %H:%M', time.localtime(asked.until))}"


def _notes(table: UsageTable, terminal: Terminal) -> list[str]:
    """What the sums are, and what is missing from them."""
    notes = []
    if table.total.is_estimate:
        prices = prices_in_words(table.months, table.source, table.version)
        notes.append(f"At {prices} where marked ~. A subscription costs its price.")
    if table.without_price:
        names = ", ".join(_text(each, terminal) for each in table.without_price)
        notes.append(f'No price is known of {names}: [prices."MODEL"] in the settings sets one.')
    if table.missing:
        sessions = "session is" if table.missing == 1 else "sessions are"
        notes.append(
            f"{table.missing:,} {sessions} missing: they were read by an older version, and are not counted yet."
        )
    return notes
