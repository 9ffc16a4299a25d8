"""`runward status`: whether the daemon is up, and what it has to do."""

import sys
import time
from collections.abc import Mapping
from typing import Final, NoReturn

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.terminal.output import print_json, safe
from runward.daemon.cli.terminal.times import Period
from runward.daemon.cli.terminal.wrapping import room
from runward.daemon.store import reading
from runward.daemon.views.status import Status, status_of

USUAL_PERIOD: Final = "2"
"""Seconds between two pages by default, as for watch(1)."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--watch",
    "every",
    type=Period(),
    is_flag=False,
    flag_value=USUAL_PERIOD,
    metavar="[SECONDS]",
    help="Redraw it every SECONDS (default: 2) until Ctrl-C; needs a terminal.",
)
@click.pass_context
def status(context: click.Context, as_json: bool, every: float | None) -> None:
    """Show whether the daemon is well, what needs you, and what is running, waiting, held and due.

    Exit code 0: it is running. 1: it is running but does not respond. 3: it is not running.

    \b
    Example:
      runward status
      runward status --watch
    """
    settings = settings_in_force(context)
    if every is not None:
        _watch(settings, every, as_json)
    found = status_of(settings, time.time())
    if as_json:
        print_json(found.told)
    else:
        click.echo("\n".join(_page(settings, found)))
    sys.exit(_code(found.told))


def _code(found: Mapping[str, JsonValue]) -> int:
    if not found["running"]:
        return NOT_FOUND
    return GOOD if found["stalled_s"] is None else NOT_SO


def _watch(settings: Settings, every: float, as_json: bool) -> NoReturn:
    from runward.daemon.cli.terminal.redrawing import redraw

    if as_json:
        raise click.UsageError("--watch can't be combined with --json")
    if not sys.stdout.isatty():
        raise click.UsageError(
            "--watch needs a terminal; programs can call `runward status --json` repeatedly"
        )
    redraw(lambda: _page_or_why_not(settings), every)


def _page_or_why_not(settings: Settings) -> list[str]:
    try:
        return _page(settings, status_of(settings, time.time()))
    except reading.StoreUnreadable as error:
        return [safe(str(error))]


def _page(settings: Settings, found: Status) -> list[str]:
    from runward.daemon.cli.status.text import lines_of

    return lines_of(found.told, found.running, settings.state_dir, time.time(), room())
