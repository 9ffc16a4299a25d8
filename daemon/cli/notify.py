"""`runward notify`: notices to people outside."""

import time
import uuid
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import ask_daemon, new_request, note_without_daemon
from runward.daemon.cli.shell.context import pass_settings, settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import Noun, find_called
from runward.daemon.cli.terminal.options import json_option, limit_option, listed
from runward.daemon.cli.terminal.output import (
    Columns,
    coloured,
    fail,
    print_json,
    print_list,
    print_one,
    print_text,
    safe,
)
from runward.daemon.store.tables.notices import NoticeRow, PendingNotice, notices, notices_called
from runward.daemon.views.text import ago

STATES = ("pending", "delivered", "dead")


@click.group(cls=Group)
def notify() -> None:
    """Show, test and retry notices: the messages that `[[notify]]` in the settings sends to people.

    \b
    Example:
      runward notify test
    """


_COLUMNS: Final[Columns[NoticeRow]] = {
    "NOTICE": lambda row: safe(row.id),
    "KIND": lambda row: safe(row.kind),
    "TITLE": lambda row: safe(row.title),
    "TO": lambda row: safe(row.recipient),
    "STATE": lambda row: coloured(row.state),
    "TRIES": lambda row: str(row.tries),
    "SINCE": lambda row: ago(row.created_at, time.time()),
    "PROBLEM": lambda row: safe(row.error or "-"),
}


@notify.command("list")
@click.option("--state", type=click.Choice(STATES), help="Show only those in this state.")
@limit_option
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_notices(settings: Settings, state: str | None, limit: int, as_json: bool) -> None:
    """List notices, the newest first.

    A notice is pending, delivered, or given up (dead).

    \b
    Example:
      runward notify list --state dead
    """
    with store_to_read(settings) as connection:
        listed = notices(connection, state, limit or -1)
    print_list(listed, _COLUMNS, as_json, value=NoticeRow.as_json, nothing="no notices")


@notify.command()
@json_option()
@click.pass_context
def test(context: click.Context, as_json: bool) -> None:
    """Send a notice to every recipient of the settings, now. Exit code 1 if any was not delivered.

    It needs no daemon and leaves no record.

    \b
    Example:
      runward notify test
    """
    from runward.daemon.world.messenger import send

    settings = settings_in_force(context)
    if not settings.notify:
        fail("the settings have no recipient: add [[notify]]", NOT_FOUND)
    now = time.time()
    results: list[JsonValue] = []
    for recipient in settings.notify:
        notice = _example(recipient.name, now)
        why = send(recipient, notice)
        results.append({"recipient": recipient.name, "delivered": why is None, "problem": why})
        if not as_json:
            print_text(f"{recipient.name}: {'delivered' if why is None else f'not delivered: {safe(why)}'}")
    if as_json:
        print_json(results)
    if any(isinstance(each, dict) and not each["delivered"] for each in results):
        context.exit(NOT_SO)


def _example(recipient: str, now: float) -> PendingNotice:
    text = "This is what `runward notify test` sends."
    name = f"nt_{uuid.uuid4().hex[:12]}"
    return PendingNotice(
        id=name,
        kind="test",
        subject="test",
        recipient=recipient,
        title="Runward can reach you",
        text=text,
        created_at=now,
        tries=0,
        next_at=now,
        since=now,
    )


_NOTICE: Final = Noun(
    "notice",
    notices_called,
    newest=lambda store: notices(store, "dead", 1),
    none_yet="no notice was given up",
)


@notify.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.dead_notices)
@json_option()
@pass_settings
def retry(settings: Settings, identifier: str, as_json: bool) -> None:
    """Retry a notice that was given up. It is durable when this returns, whether or not a daemon runs.

    \b
    Example:
      runward notify retry @last
    """
    from runward.handlers.model.notices import NoticeRetryRequested

    with store_to_read(settings) as connection:
        row = find_called(connection, _NOTICE, identifier)
    if row.state != "dead":
        fail(f"{row.id} is {row.state}: only what was given up can be tried again", NOT_SO)
    ask_daemon(settings, new_request(NoticeRetryRequested, row.id))
    print_one(as_json, {"id": row.id, "status": "asked"}, f"{row.id} is to be tried again")
    note_without_daemon(settings)
