"""`runward exchange principal`, `mint` and `token`: who acts, what they begin with, and with which token over HTTP."""

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.config.shape import size_of
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exchange.acting import AS, Acting, text_of
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import (
    ask_daemon,
    new_request,
    note_if_late,
    note_without_daemon,
    once_taken_up,
)
from runward.daemon.cli.shell.context import pass_settings, settings_in_force, store_to_read
from runward.daemon.cli.terminal.options import NamedPath, json_option, listed
from runward.daemon.cli.terminal.output import (
    Columns,
    fail,
    note,
    print_json,
    print_list,
    print_one,
    print_text,
    safe,
)
from runward.daemon.disk.credentials import Token, create_token, list_tokens, revoke_token
from runward.daemon.store.ownership import prepare
from runward.daemon.store.tables.artifacts import is_decided
from runward.daemon.store.tables.events import why_refused
from runward.daemon.store.tables.principals import PrincipalRow, principals
from runward.daemon.views.exchange import shown_principal
from runward.daemon.views.text import ago, size
from runward.handlers.exchange.accounts import why_no_principal
from runward.handlers.model.exchange import MILLIONTHS, SCRIP, MintRequested, PrincipalCreateRequested
from runward.handlers.times import iso

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
@json_option()
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
    why = why_no_principal(name)
    if why is not None:
        fail(f"{name!r} can't be a principal: it {why}", WRONG_USAGE)
    quota = None if disk is None else size_of(disk)
    if disk is not None and quota is None:
        fail(f"--disk is not a size: {disk!r}; write a whole number with its unit, as in 10KB", WRONG_USAGE)
    if config is not None and not is_agent:
        fail("--agent-config is the content of an agent's artifact: add --agent", WRONG_USAGE)
    event = new_request(
        PrincipalCreateRequested,
        name,
        owner,
        scrip,
        quota,
        cpu_seconds=None if cpu in (None, _NO_LIMIT) else _seconds(str(cpu)),
        is_cpu_unlimited=cpu == _NO_LIMIT,
        users=users,
        is_agent=is_agent,
        has_memory=has_memory,
        config="" if config is None else text_of(config),
    )
    _ask(settings_in_force(context), event, f"created {name}", as_json=as_json)


_COLUMNS: Final[Columns[PrincipalRow]] = {
    "PRINCIPAL": lambda row: safe(row.id),
    "SCRIP": lambda row: str(row.scrip),
    "ARTIFACTS": lambda row: str(len(row.artifacts)),
    "DISK": lambda row: f"{size(row.disk_used)} of {size(row.disk_quota)}",
    "CPU": lambda row: "no limit" if row.cpu_seconds is None else f"{row.cpu_seconds:g}s",
    "AGENT": lambda row: "yes" if row.is_agent else "-",
    "SINCE": lambda row: ago(row.created_at, time.time()),
}


@principal.command("list")
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_principals(settings: Settings, as_json: bool) -> None:
    """List all principals.

    \b
    Example:
      runward exchange principal list
    """
    with store_to_read(settings) as connection:
        rows = principals(connection)
        shown = {each.id: shown_principal(connection, each, settings) for each in rows}
    print_list(rows, _COLUMNS, as_json, value=lambda row: shown[row.id], nothing="no principals")


@principal.command()
@click.argument("name", shell_complete=completing.principals)
@json_option()
@pass_settings
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show a principal: its scrip, quotas and artifacts.

    \b
    Example:
      runward exchange principal show writer
    """
    with store_to_read(settings) as connection:
        rows = principals(connection, name)
        shown = shown_principal(connection, rows[0], settings) if rows else None
    if shown is None:
        fail(f"there is no principal {name!r}: runward exchange principal list shows them", NOT_FOUND)
    row = rows[0]
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
    print_text("\n".join(lines))


@click.command()
@click.argument("principal", shell_complete=completing.principals)
@click.argument("amount")
@click.option("--resource", default=SCRIP, show_default=True, metavar="NAME", help="What to create.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the ledger.")
@json_option()
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
    units = _units(amount, resource)
    event = new_request(MintRequested, principal, units, resource, reason)
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


def _ask(settings: Settings, event: "Request", done: str, *, as_json: bool) -> None:
    """Leave the request in the inbox, and wait until it is decided if a daemon runs."""
    key = ask_daemon(settings, event, before_any_daemon=True)

    def decided(connection: sqlite3.Connection) -> bool | None:
        refused = why_refused(connection, key)
        if refused is not None:
            fail(refused, NOT_SO)
        return True if is_decided(connection, key) else None

    is_done = once_taken_up(settings, decided) is not None
    if as_json:
        print_json({"request": key, "status": "done" if is_done else "asked"})
    elif is_done:
        print_text(safe(done))
    if not is_done:
        note_without_daemon(settings)
        note_if_late(settings, "done it")


@click.group(cls=Group)
def token() -> None:
    """Create, list and revoke tokens.

    With a token, a program acts as its principal through the tools that the daemon serves over HTTP.

    \b
    Example:
      runward exchange token create --as writer
    """


@token.command("create")
@AS
@json_option()
@pass_settings
def create_for(settings: Settings, principal: str, as_json: bool) -> None:
    """Make a token and print it. It is shown only once, because only its hash is kept.

    Exit code 3: there is no such principal.

    \b
    Example:
      runward exchange token create --as writer
    """
    Acting(settings).check(principal)
    with store_to_read(settings) as connection:
        if not principals(connection, principal):
            fail(f"there is no principal {principal!r}: create it first", NOT_FOUND)
    state = Path(settings.state_dir)
    prepare(state)
    try:
        # From here on, the secret is only in what is printed: its hash is all that is kept.
        made, secret = create_token(state, principal, time.time())
    except OSError as error:
        fail(f"the token can't be kept: {error.strerror}", TRY_AGAIN)
    if settings.http is None or not settings.http.mcp:
        note("no tools are served over HTTP: set mcp = true in [http] of the settings")
    if as_json:
        print_json({**_as_json(made), "token": secret})
    else:
        click.echo(secret)  # in one piece, to be copied


_TOKEN_COLUMNS: Final[Columns[Token]] = {
    "ID": lambda token: token.id,
    "PRINCIPAL": lambda token: safe(token.principal),
    "CREATED": lambda token: ago(token.created_at, time.time()),
}


@token.command("list")
@listed(_TOKEN_COLUMNS)
@json_option()
@pass_settings
def list_all(settings: Settings, as_json: bool) -> None:
    """List the tokens, without their secrets.

    \b
    Example:
      runward exchange token list
    """
    tokens = list_tokens(Path(settings.state_dir))
    print_list(tokens, _TOKEN_COLUMNS, as_json, value=_as_json, nothing="no tokens")


@token.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.tokens)
@json_option()
@pass_settings
def revoke(settings: Settings, identifier: str, as_json: bool) -> None:
    """Revoke a token: the next request with it is refused.

    Exit code 3: there is no such token.

    \b
    Example:
      runward exchange token revoke 5c0ffee5c0ffee00
    """
    state = Path(settings.state_dir)
    prepare(state)
    try:
        was_there = revoke_token(state, identifier)
    except OSError as error:
        fail(f"the token can't be removed: {error.strerror}", TRY_AGAIN)
    if not was_there:
        fail(f"there is no token {identifier!r}: runward exchange token list shows them", NOT_FOUND)
    print_one(as_json, {"revoked": identifier}, f"revoked {identifier}")


def _as_json(token: Token) -> dict[str, JsonValue]:
    return {"id": token.id, "principal_id": token.principal, "created_at": iso(token.created_at)}
