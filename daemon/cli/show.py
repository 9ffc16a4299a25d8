"""`runward show`: shows, and the results of their plays."""

import json
import sqlite3
import time
from typing import Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal.options import json_option, listed
from runward.daemon.cli.terminal.output import (
    Columns,
    coloured,
    fail,
    print_json,
    print_list,
    print_table,
    print_text,
    safe,
)
from runward.daemon.store.tables.shows import (
    PlayRow,
    ShowRow,
    plan_of,
    plays_of,
    shows,
    shows_called,
)
from runward.daemon.views.shows import whole_show
from runward.daemon.views.text import ago
from runward.handlers.secrets import text_without_secrets

_GATES = {1: "passed", 0: "failed", None: "-"}


@click.group(cls=Group)
def show() -> None:
    """List shows, their plays and the verdicts of their gates.

    \b
    Example:
      runward show list
    """


_COLUMNS: Final[Columns[ShowRow]] = {
    "TOPIC": lambda row: safe(row.topic),
    "PLAYS": lambda row: str(row.plays),
    "RUNNING": lambda row: str(row.running),
    "PASSED": lambda row: str(row.passed),
    "FAILED": lambda row: str(row.failed),
    "BEGAN": lambda row: ago(row.created_at, time.time()),
    "PATH": lambda row: safe(row.path),
}


@show.command("list")
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_shows(settings: Settings, as_json: bool) -> None:
    """List all shows, the newest first.

    \b
    Example:
      runward show list
    """
    with store_to_read(settings) as connection:
        rows = shows(connection)
    print_list(rows, _COLUMNS, as_json, value=ShowRow.as_json, nothing="no shows")


@show.command("show")
@click.argument("topic", metavar="TOPIC", shell_complete=completing.shows)
@json_option()
@pass_settings
def show_one(settings: Settings, topic: str, as_json: bool) -> None:
    """Show a show's plays and its plan. TOPIC is the name of its directory, or the whole path.

    \b
    Example:
      runward show show retry-queue
    """
    with store_to_read(settings) as connection:
        row = _find(connection, topic)
        plays, plan = plays_of(connection, row.path), plan_of(connection, row.path)
    if as_json:
        print_json(whole_show(settings, row, plan, plays))
        return
    print_text(f"show {safe(row.topic)} in {safe(row.path)}\n")
    header = ("PLAY", "STATUS", "GATE", "AGENT", "MODEL", "DEPENDS ON", "SUMMARY")
    print_table(header, [_play_row(each, settings) for each in plays])
    if plan is not None:
        print_text("\n".join(["", "Plan", "", *(f"  {safe(line)}".rstrip() for line in plan.splitlines())]))


def _find(connection: sqlite3.Connection, topic: str) -> ShowRow:
    candidates = shows_called(connection, topic)
    if not candidates:
        fail(f"there is no show {topic!r}: `runward show list` shows them", NOT_FOUND)
    if len(candidates) > 1:
        paths = ", ".join(each.path for each in candidates)
        fail(f"{topic!r} is the topic of several shows: give the path ({paths})", WRONG_USAGE)
    return candidates[0]


def _play_row(row: PlayRow, settings: Settings) -> tuple[str, ...]:
    depends_on = ", ".join(json.loads(row.depends_on))
    return (
        safe(row.name),
        coloured(row.session_status),
        _GATES[row.gate_passed],
        safe(row.agent or "-"),
        safe(row.model or "-"),
        safe(depends_on or "-"),
        safe(text_without_secrets(row.gate_summary or "-", settings.bundle.rules.redact)),
    )
