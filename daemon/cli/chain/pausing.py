"""`runward chain pause|resume|disable`: whether a chain may fire."""

import time
import uuid
from pathlib import Path

import click

from runward.config.settings import Settings
from runward.daemon.cli.chain.named_chain import found_chain
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.terminal.output import (
    note,
    print_json,
    safe,
)
from runward.daemon.store.reading import reading
from runward.daemon.store.reading_chains import chain_statuses
from runward.handlers.model.chains import ChainStatus


@click.command()
@click.argument("name", shell_complete=completing.chains)
@click.option("--note", default="", metavar="TEXT", help="The reason, for the record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def pause(context: click.Context, name: str, note: str, as_json: bool) -> None:
    """Pause a chain until it is resumed. Events that would fire it are skipped; runs in progress continue.

    \b
    Example:
      runward chain pause pr-review --note "release freeze"
    """
    _set_status(settings_in_force(context), name, "paused", note, as_json=as_json)


@click.command()
@click.argument("name", shell_complete=completing.chains)
@click.option("--note", default="", metavar="TEXT", help="The reason, for the record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def resume(context: click.Context, name: str, note: str, as_json: bool) -> None:
    """Resume a paused or disabled chain. Events that were skipped in the meantime do not fire it later.

    \b
    Example:
      runward chain resume pr-review
    """
    _set_status(settings_in_force(context), name, "active", note, as_json=as_json)


@click.command()
@click.argument("name", shell_complete=completing.chains)
@click.option("--note", default="", metavar="TEXT", help="The reason, for the record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def disable(context: click.Context, name: str, note: str, as_json: bool) -> None:
    """Disable a chain permanently. `resume` enables it again.

    \b
    Example:
      runward chain disable pr-review --note "replaced by pr-gate"
    """
    _set_status(settings_in_force(context), name, "disabled", note, as_json=as_json)


def _set_status(settings: Settings, name: str, status: ChainStatus, note: str, *, as_json: bool) -> None:
    from runward.daemon.inbox.request_file import dump_request
    from runward.daemon.inbox.spool import put
    from runward.daemon.store.ownership import prepare
    from runward.handlers.model.chains import ChainStatusRequested

    parsed = found_chain(settings, name)
    called = name if parsed.value is None else parsed.value.name
    request = str(uuid.uuid4())
    state = Path(settings.state_dir)
    prepare(state)
    now = time.time()
    put(state, request, dump_request(ChainStatusRequested(request, now, called, status, note)))
    _wait_for_status(settings, called, now)
    if as_json:
        print_json({"name": called, "status": status})
    else:
        click.echo(f"{safe(called)} is {status} from now on")


def _wait_for_status(settings: Settings, name: str, at: float) -> None:
    """Until a running daemon has processed the request just made; it is durable in any case."""
    from runward.daemon.cli.shell.request_waiting import once_taken_up
    from runward.daemon.store.ownership import holder

    def taken() -> bool | None:
        with reading(settings.state_dir) as connection:
            found = chain_statuses(connection).get(name)
        return True if found is not None and found.since >= at else None

    state = Path(settings.state_dir)
    if once_taken_up(state, taken) is None and holder(state) is not None:
        note("the daemon has not processed it yet: `runward status` says why")
