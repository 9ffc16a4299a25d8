"""`runward exchange principal` and `mint`: who acts, and what they begin with."""

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.config.shape import size_of
from runward.daemon.cli.exchange.arguments import text_of
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.shell.request_waiting import once_taken_up
from runward.daemon.cli.terminal.output import fail, note, print_json, print_table, safe
from runward.daemon.inbox.spool import MAXIMUM_REQUEST, put
from runward.daemon.store.ownership import holder, prepare
from runward.daemon.store.reading_artifacts import is_decided
from runward.daemon.store.reading_exchange import PrincipalRow, principals
from runward.daemon.store.reading_queue import why_refused
from runward.daemon.views.exchange import shown_principal
from runward.daemon.views.text import ago, size
from runward.handlers.exchange.accounts import why_no_principal
from runward.handlers.model.exchange import MILLIONTHS, SCRIP

if TYPE_CHECKING:
    from runward.handlers.model.events import Request

_NO_LIMIT = "none"


@click.group(cls=Group)
def principal() -> None:
    """Create and show principals.

    A principal acts in the exchange, owns artifacts and has scrip.

    \b
    Example:
      runward exchange principal create writer --scrip 100
    """


@principal.command()
@click.argument("name")
@click.option(
    "--owner", metavar="P", shell_complete=completing.principals, help="Its owner (default: itself)."
)
@click.option(
    "--scrip", type=click.IntRange(0, 1 << 53), default=0, metavar="N", help="The scrip that it starts with."
)
@click.option("--disk", metavar="SIZE", help="Its disk quota, as in 10KB (default: from the settings).")
@click.option(
    "--cpu",
    metavar="SECONDS",
    help="Its CPU time in each window; none: no limit (default: from the settings).",
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="NAME",
    help="A user who may act as it, in addition to the daemon's.",
)
@click.option("--agent", "is_agent", is_flag=True, help="Create an agent, which acts on its own.")
@click.option("--memory", "has_memory", is_flag=True, help="Also create an artifact for its memory.")
@click.option(
    "--agent-config",
    "config",
    type=NamedPath(readable=False),
    metavar="FILE",
    help="With --agent: a file with the content of its artifact.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def create(
    context: click.Context,
    name: str,
    owner: str | None,
    scrip: int,
    disk: str | None,
    cpu: str | None,
    users: tuple[str, ...],
    is_agent: bool,
    has_memory: bool,
    config: str | None,
    as_json: bool,
) -> None:
    """Create a principal. It is durable when this returns.

    \b
    Example:
      runward exchange principal create writer --scrip 100 --disk 10MB
    """
    from runward.handlers.model.exchange import PrincipalCreateRequested

    why = why_no_principal(name)
    if why is not None:
        fail(f"{name!r} can't be a principal: it {why}", WRONG_USAGE)
    quota = None if disk is None else size_of(disk)
    if disk is not None and quota is None:
        fail(f"--disk is not a size: {disk!r}; write a whole number with its unit, as in 10KB", WRONG_USAGE)
    if config is not None and not is_agent:
        fail("--agent-config is the content of an agent's artifact: add --agent", WRONG_USAGE)
    event = PrincipalCreateRequested(
        *(str(uuid.uuid4()), time.time(), name, owner, scrip, quota),
        cpu_seconds=None if cpu in (None, _NO_LIMIT) else _seconds(str(cpu)),
        is_cpu_unlimited=cpu == _NO_LIMIT,
        users=users,
        is_agent=is_agent,
        has_memory=has_memory,
        config="" if config is None else text_of(config),
    )
    _ask(settings_in_force(context), event, f"created {name}", as_json=as_json)


@principal.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_principals(context: click.Context, as_json: bool) -> None:
    """List all principals.

    \b
    Example:
      runward exchange principal list
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        found = principals(connection)
        shown: list[JsonValue] = [shown_principal(connection, each, settings) for each in found]
    if as_json:
        print_json(shown)
    elif not found:
        click.echo("no principals")
    else:
        header = ("PRINCIPAL", "SCRIP", "ARTIFACTS", "DISK", "CPU", "AGENT", "SINCE")
        print_table(header, [_row(each) for each in found])


@principal.command()
@click.argument("name", shell_complete=completing.principals)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(context: click.Context, name: str, as_json: bool) -> None:
    """Show a principal: its scrip, quotas and artifacts.

    \b
    Example:
      runward exchange principal show writer
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        found = principals(connection, name)
        shown = shown_principal(connection, found[0], settings) if found else None
    if shown is None:
        fail(f"there is no principal {name!r}: runward exchange principal list shows them", NOT_FOUND)
    row = found[0]
    if as_json:
        print_json(shown)
        return
    used = shown["cpu"]
    assert isinstance(used, dict), "our own JSON"
    cpu = (
        "no limit"
        if row.cpu_seconds is None
        else f"{used['used_s']:.3g} of {row.cpu_seconds:g} s in {settings.exchange.cpu_window:g} s"
    )
    lines = [
        f"principal {safe(row.id)}{', an agent' if row.is_agent else ''}",
        f"scrip      {row.scrip}",
        f"disk       {size(row.disk_used)} of {size(row.disk_quota)}",
        f"cpu        {cpu}",
        f"users      {', '.join(map(safe, row.users)) or 'only that of the daemon'}",
        *(f"holds      {amount / MILLIONTHS:g} {safe(name)}" for name, amount in row.resources.items()),
        *(f"owns       {safe(each)}" for each in row.artifacts),
    ]
    click.echo("\n".join(lines))


def _row(row: PrincipalRow) -> tuple[str, ...]:
    return (
        safe(row.id),
        str(row.scrip),
        str(len(row.artifacts)),
        f"{size(row.disk_used)} of {size(row.disk_quota)}",
        "no limit" if row.cpu_seconds is None else f"{row.cpu_seconds:g}s",
        "yes" if row.is_agent else "-",
        ago(row.created_at, time.time()),
    )


@click.command()
@click.argument("principal", shell_complete=completing.principals)
@click.argument("amount")
@click.option("--resource", default=SCRIP, show_default=True, metavar="NAME", help="What to create.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def mint(
    context: click.Context, principal: str, amount: str, resource: str, reason: str, as_json: bool
) -> None:
    """Create scrip, or a resource, for a principal. A negative AMOUNT takes it away.

    \b
    Example:
      runward exchange mint writer 100 --reason "for November"
      runward exchange mint writer -- -20
    """
    from runward.handlers.model.exchange import MintRequested

    units = _units(amount, resource)
    event = MintRequested(str(uuid.uuid4()), time.time(), principal, units, resource, reason)
    _ask(settings_in_force(context), event, f"minted {amount} {resource} for {principal}", as_json=as_json)


def _units(amount: str, resource: str) -> int:
    try:
        number = float(amount)
        units = int(amount) if resource == SCRIP else round(number * MILLIONTHS)
    except (ValueError, OverflowError):
        what = "a whole number" if resource == SCRIP else "a number"
        fail(f"AMOUNT is not {what}: {amount!r}", WRONG_USAGE)
    if units == 0 or abs(units) > 1 << 53:
        fail("AMOUNT must not be 0 or beyond 2^53", WRONG_USAGE)
    return units


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < 1e9:
        fail(f"--cpu is not a number of seconds: {text!r}; write 5, 0.5 or {_NO_LIMIT}", WRONG_USAGE)
    return seconds


def _ask(settings: Settings, event: "Request", said: str, *, as_json: bool) -> None:
    """Leave the request in the inbox, and wait until it is decided if a daemon runs."""
    from runward.daemon.inbox.request_file import dump_request

    state, key = Path(settings.state_dir), str(event.request)
    document = dump_request(event)
    if len(document) > MAXIMUM_REQUEST:
        fail("this is too long: a request has at most 1 MiB", WRONG_USAGE)
    prepare(state)
    put(state, key, document)

    def decided() -> bool | None:
        with store_to_read(settings) as connection:
            refused = why_refused(connection, key)
            if refused is not None:
                fail(refused, NOT_SO)
            return True if is_decided(connection, key) else None

    is_done = once_taken_up(state, decided) is not None
    if as_json:
        print_json({"request": key, "status": "done" if is_done else "asked"})
    elif is_done:
        click.echo(safe(said))
    if is_done:
        return
    if holder(state) is None:
        note("no daemon is running: it will be done when one starts")
    else:
        note("the daemon has not done it yet: `runward status` says why")
