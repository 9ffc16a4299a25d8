"""`runward exchange ledger` and `log`: what was paid, and what was done."""

import sys
import time

import click

from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.terminal.options import limit_option
from runward.daemon.cli.terminal.output import (
    align,
    coloured,
    print_json,
    print_json_line,
    print_table,
    safe,
    width,
)
from runward.daemon.cli.terminal.times import Moment
from runward.daemon.store.reading_exchange import (
    ActionRow,
    LedgerRow,
    WantedActions,
    actions,
    as_json,
    latest_actions,
    ledger_entries,
    scrip_in_circulation,
    wrong_balances,
)
from runward.daemon.views.exchange import action_as_json, ledger_as_json, shown_result
from runward.daemon.views.text import local
from runward.handlers.model.exchange import MILLIONTHS, SCRIP

_PERIOD = 0.25


@click.command()
@click.option("--principal", metavar="P", shell_complete=completing.principals, help="Show only its entries.")
@click.option("--since", type=Moment(), help="Show only those since then: 2h, today, a date.")
@click.option("--check", is_flag=True, help="Verify all sums. Exit code 1: something does not add up.")
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
@click.pass_context
def ledger(
    context: click.Context, principal: str | None, since: float | None, check: bool, json_wanted: bool
) -> None:
    """List the entries of the ledger, the oldest first.

    \b
    Example:
      runward exchange ledger --principal writer
      runward exchange ledger --check
    """
    with store_to_read(settings_in_force(context)) as connection:
        found = ledger_entries(connection, principal, since)
        wrong = list(wrong_balances(connection)) if check else []
        circulating = scrip_in_circulation(connection)
    if check:
        if json_wanted:
            print_json({"entries": len(found), "scrip": circulating, "problems": [*wrong]})
        else:
            for each in wrong:
                click.echo(safe(each))
            if not wrong:
                click.echo(f"{len(found)} entries add up; {circulating} scrip are in circulation")
        sys.exit(NOT_SO if wrong else GOOD)
    if json_wanted:
        print_json(ledger_as_json(found))
    elif not found:
        click.echo("no entries")
    else:
        print_table(("WHEN", "FROM", "TO", "AMOUNT", "RESOURCE", "REASON"), [_entry(each) for each in found])


def _entry(row: LedgerRow) -> tuple[str, ...]:
    amount = str(row.amount) if row.resource == SCRIP else f"{row.amount / MILLIONTHS:g}"
    return (
        local(row.at),
        safe(row.giver),
        safe(row.taker),
        amount,
        safe(row.resource),
        safe(row.reason),
    )


@click.command()
@click.option("--principal", metavar="P", shell_complete=completing.principals, help="Show only its actions.")
@click.option(
    "--artifact",
    metavar="ID",
    shell_complete=completing.shared_artifacts,
    help="Show only actions on this artifact.",
)
@click.option("--since", type=Moment(), help="Show only those since then: 2h, today, a date.")
@limit_option
@click.option("-f", "--follow", is_flag=True, help="Print new actions as they come.")
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON: a list; with -f, one object per line.")
@click.pass_context
def log(
    context: click.Context,
    principal: str | None,
    artifact: str | None,
    since: float | None,
    limit: int,
    follow: bool,
    json_wanted: bool,
) -> None:
    """List the actions with reasoning and result, the newest last.

    \b
    Example:
      runward exchange log -f
    """
    settings = settings_in_force(context)
    wanted = WantedActions(principal, artifact, since, limit=limit or -1)
    with store_to_read(settings) as connection:
        found = latest_actions(connection, wanted)
    after = 0
    widest = [""] * 5
    """Blanks as wide as each column so far, so that what follows is aligned with it."""
    while True:
        after = found[-1].seq if found else after
        if json_wanted and not follow:
            print_json([action_as_json(row) for row in found])
        elif json_wanted:
            for row in found:
                print_json_line(action_as_json(row))
        else:
            rows = [widest, *map(_row, found)]
            widest = [" " * max(map(width, column)) for column in zip(*rows, strict=True)]
            for line in align(rows)[1:]:
                click.echo(line)
        if not follow:
            break
        sys.stdout.flush()
        time.sleep(_PERIOD)
        with store_to_read(settings) as connection:
            found = actions(connection, wanted._replace(after=after, limit=-1))
    if not found and not json_wanted and after == 0:
        click.echo("no actions")


def _row(row: ActionRow) -> list[str]:
    intent = as_json(row.intent)
    reasoning = intent.get("reasoning") if isinstance(intent, dict) else None
    said = f"“{safe(str(reasoning))}”" if reasoning else "(no reasoning)"
    what = f"{row.action_type or 'not an intent'} {row.artifact_id or ''}".rstrip()
    state = coloured("ok", "ok") if row.is_success else coloured("failed", str(row.error_code))
    message = shown_result(row)["message"]
    who, told = safe(row.principal or "-"), f"{state}: {safe(str(message))}"
    return [local(row.at), who, safe(what), told, said]
