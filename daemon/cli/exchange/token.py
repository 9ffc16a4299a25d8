"""`runward exchange token`: with a token, a program acts as a principal over HTTP."""

import time
from pathlib import Path

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exchange.acting import Acting
from runward.daemon.cli.exchange.artifact import AS
from runward.daemon.cli.exits import NOT_FOUND, TRY_AGAIN
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.terminal.output import fail, note, print_json, print_table, safe
from runward.daemon.disk.credentials import Token, create_token, list_tokens, revoke_token
from runward.daemon.store.ownership import prepare
from runward.daemon.store.reading_exchange import principals
from runward.daemon.views.text import ago, iso


@click.group(cls=Group)
def token() -> None:
    """Create, list and revoke tokens.

    With a token, a program acts as its principal through the tools that the daemon serves over HTTP.

    \b
    Example:
      runward exchange token create --as writer
    """


@token.command()
@AS
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def create(context: click.Context, principal: str, as_json: bool) -> None:
    """Make a token and print it. It is shown only once, because only its hash is kept.

    Exit code 3: there is no such principal.

    \b
    Example:
      runward exchange token create --as writer
    """
    settings = settings_in_force(context)
    Acting(settings).check(principal)
    with store_to_read(settings) as connection:
        if not principals(connection, principal):
            fail(f"there is no principal {principal!r}: create it first", NOT_FOUND)
    state = Path(settings.state_dir)
    prepare(state)
    try:
        made, secret = create_token(state, principal, time.time())
    except OSError as error:
        fail(f"the token can't be kept: {error.strerror}", TRY_AGAIN)
    if settings.http is None or not settings.http.mcp:
        note("no tools are served over HTTP: set mcp = true in [http] of the settings")
    if as_json:
        print_json({**_as_json(made), "token": secret})
    else:
        click.echo(secret)


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_all(context: click.Context, as_json: bool) -> None:
    """List the tokens, without their secrets.

    \b
    Example:
      runward exchange token list
    """
    found = list_tokens(Path(settings_in_force(context).state_dir))
    if as_json:
        print_json([_as_json(each) for each in found])
        return
    if not found:
        click.echo("no tokens")
        return
    now = time.time()
    print_table(
        ("ID", "PRINCIPAL", "CREATED"),
        [(each.id, safe(each.principal), ago(each.created_at, now)) for each in found],
    )


@token.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.tokens)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def revoke(context: click.Context, identifier: str, as_json: bool) -> None:
    """Revoke a token: the next request with it is refused.

    Exit code 3: there is no such token.

    \b
    Example:
      runward exchange token revoke 5c0ffee5c0ffee00
    """
    state = Path(settings_in_force(context).state_dir)
    prepare(state)
    try:
        was_there = revoke_token(state, identifier)
    except OSError as error:
        fail(f"the token can't be removed: {error.strerror}", TRY_AGAIN)
    if not was_there:
        fail(f"there is no token {identifier!r}: runward exchange token list shows them", NOT_FOUND)
    if as_json:
        print_json({"revoked": identifier})
    else:
        click.echo(f"revoked {identifier}")


def _as_json(token: Token) -> dict[str, JsonValue]:
    return {"id": token.id, "principal_id": token.principal, "created_at": iso(token.created_at)}
