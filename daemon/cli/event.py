"""`runward event`: telling the daemon that something happened."""

import uuid

import click

from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import WRONG_USAGE
from runward.daemon.cli.shell.asking import ask_daemon, note_if_late, note_without_daemon, once_taken_up
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.terminal.options import json_option, own_chain_run, values_of
from runward.daemon.cli.terminal.output import fail, print_one, safe


@click.group(cls=Group)
def event() -> None:
    """Report events from outside that chains react to.

    \b
    Example:
      runward event emit pr.opened base=main pr_number:=12
    """


@event.command()
@click.argument("name")
@click.argument("values", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--id", "identifier", metavar="KEY", help="The event's id: the same name and id are the same event."
)
@json_option()
@click.pass_context
def emit(
    context: click.Context, name: str, values: tuple[str, ...], identifier: str | None, as_json: bool
) -> None:
    """Report that the event NAME happened. It is durable when this returns, whether or not a daemon runs.

    If one runs, this waits until it has recorded the event.

    KEY=VALUE gives a text, KEY:=JSON any other value; chains see them as {{ trigger.KEY }}.

    \b
    Example:
      runward event emit pr.opened base=main draft:=false pr_number:=1070
    """
    from runward.config.trigger import is_event_name
    from runward.daemon.inbox.spool import occurrence_request

    if not is_event_name(name):
        fail(f"{name!r} is not the name of an event: write letters, digits, '.', '_' and '-'", WRONG_USAGE)
    settings = settings_in_force(context)
    fields = values_of(values)
    # The request's name follows from name and id: the same event, reported twice, is one file and one event.
    known = identifier if identifier is not None else str(uuid.uuid4())
    request = ask_daemon(
        settings,
        occurrence_request(name, known, fields, own_chain_run()),
        before_any_daemon=True,
        too_long="the fields are too long for an event (1 MiB): write them into a file, and give its name",
    )
    _wait_until_recorded(settings, request)
    print_one(as_json, {"request": request, "name": name, "id": known}, f"{safe(name)} {safe(known)}")
    note_without_daemon(settings, "chains see it when one starts")


def _wait_until_recorded(settings: Settings, request: str) -> None:
    """Until a running daemon has recorded the event; it is durable in any case."""
    from runward.daemon.store.tables.events import event_recorded

    if once_taken_up(settings, lambda connection: event_recorded(connection, request)) is None:
        note_if_late(settings)
