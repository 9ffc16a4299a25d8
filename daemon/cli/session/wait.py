"""`session wait`: until a session is over and judged."""

import sqlite3
import sys
import time
from pathlib import Path
from typing import Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.exits import BY_STATUS, TIMED_OUT, TRY_AGAIN
from runward.daemon.cli.shell.finding import refuse_pruned
from runward.daemon.cli.terminal.output import coloured, fail, print_json, safe
from runward.daemon.store import reading, reading_sessions
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_files import kept_files
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.sessions import summary_of
from runward.handlers.secrets import text_without_secrets, without_secrets_in

_PERIOD: Final = 0.2
"""Seconds between two questions to the store."""


def wait_until_over(settings: Settings, row: SessionRow, patience: float | None, as_json: bool) -> None:
    """Wait until the session is over and judged, at most `patience` seconds, and end by its status."""
    until = None if patience is None else time.monotonic() + patience
    name = safe(row.session_id)
    while True:
        # Checked before the look: a daemon that judges and ends has judged.
        is_up = holder(Path(settings.state_dir)) is not None
        with reading.reading(settings.state_dir) as connection:
            if _say_if_over(connection, row, as_json):
                return
        if not is_up:
            fail(
                f"session {name} is not judged yet, and no daemon is running: start it, then wait", TRY_AGAIN
            )
        if until is not None and time.monotonic() >= until:
            fail(f"session {name} is not over yet", TIMED_OUT)
        time.sleep(_PERIOD)


def _say_if_over(connection: sqlite3.Connection, row: SessionRow, as_json: bool) -> bool:
    now = reading_sessions.session(connection, row.key)
    if now is None:
        refuse_pruned(connection, row.key)
        return False
    if now.status == "running":
        return False
    if as_json:
        print_json(without_secrets_in(summary_of(now, kept_files(connection, [now.key]).get(now.key, []))))
    else:
        click.echo(
            f"session {safe(now.session_id)} is {coloured(now.status)}: {safe(text_without_secrets(now.reason_summary))}"
        )
    sys.exit(BY_STATUS[now.status])
