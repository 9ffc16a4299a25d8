"""`runward prune`: the record of old sessions is deleted, and their tombstones stay."""

import sqlite3
import time
from typing import Final

import click

from runward.config.duration import MAX_DURATION_S, render_duration
from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.shell.asking import (
    ask_daemon,
    need_daemon,
    new_request,
    note_without_daemon,
    wait_for,
)
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal.options import Length, json_option, patience_options
from runward.daemon.cli.terminal.output import print_json, print_one, print_text
from runward.daemon.store.tables import prunings
from runward.daemon.views.text import local
from runward.handlers.times import iso

_SHORTEST: Final = 1.0
"""Seconds that a session must have been over, at least."""


@click.command()
@click.option(
    "--older-than",
    type=Length(MAX_DURATION_S),
    required=True,
    metavar="DURATION",
    help="Prune sessions that ended at least this long ago.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many sessions would be pruned.")
@patience_options("Wait for the result.", "1h")
@json_option()
@pass_settings
def prune(
    settings: Settings, older_than: float, dry_run: bool, patience: float | None, as_json: bool
) -> None:
    """Remove the record of sessions that ended long ago.

    Sessions that run or have pending work are kept. Run directories are not touched.
    The request is durable when this returns, whether or not a daemon runs. With --wait, exit code 0: it is
    done. 75: no daemon is running. 124: it took too long; it continues.

    \b
    Example:
      runward prune --older-than 90d --dry-run
      runward prune --older-than 90d --wait
    """
    if older_than < _SHORTEST:
        raise click.UsageError(f"--older-than must be at least {render_duration(_SHORTEST)}")
    if dry_run:
        now = time.time()
        _say_what_would_go(settings, now - older_than, now, as_json)
        return
    if patience is not None:
        need_daemon(settings)
    from runward.handlers.model.requests import PruneRequested  # a dry run does without

    event = new_request(PruneRequested, older_than)
    request, before = ask_daemon(settings, event, before_any_daemon=True), event.at - older_than
    if patience is not None:
        _wait(settings, request, before, patience, as_json)
        return
    message = f"sessions that ended before {local(before)} will be pruned"
    print_one(as_json, {"request": request, "before": iso(before), "state": "asked"}, message)
    note_without_daemon(settings)


def _say_what_would_go(settings: Settings, before: float, now: float, as_json: bool) -> None:
    with store_to_read(settings) as connection:
        counts = prunings.prunable(connection, before, now)
    if as_json:
        print_json({"before": iso(before), "sessions": counts.sessions, "still_owed": counts.owed})
        return
    print_text(
        f"{counted(counts.sessions, 'session', 'sessions')} that ended before {local(before)} would be pruned"
    )
    if counts.owed:
        print_text(
            f"{counted(counts.owed, 'session', 'sessions')} of that age would stay: they have pending work, or were asked for in the last day"
        )


def _wait(settings: Settings, request: str, before: float, patience: float, as_json: bool) -> None:
    def ended(connection: sqlite3.Connection) -> prunings.PruningRow | None:
        progress = prunings.pruning(connection, request)
        return progress if progress is not None and progress.ended_at is not None else None

    pruned = wait_for(settings, patience, ended, lambda: "it is not done yet; it continues")
    print_one(
        as_json,
        {"request": request, "before": iso(before), "state": "pruned", "sessions": pruned.sessions},
        f"{counted(pruned.sessions, 'session', 'sessions')} that ended before {local(before)} were pruned",
    )
