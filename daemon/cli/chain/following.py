"""`runward chain runs` and `runward chain run`: chain runs, and how to cancel one."""

from pathlib import Path

import click

from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import LAST
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.terminal.options import limit_option
from runward.daemon.cli.terminal.output import (
    fail,
    print_json,
    print_table,
)
from runward.daemon.cli.terminal.times import Moment
from runward.daemon.views.chain_runs import RUN_STATUSES


@click.command()
@click.argument("name", required=False, shell_complete=completing.chains)
@click.option("--status", type=click.Choice(RUN_STATUSES), help="Show only those with this status.")
@click.option("--since", type=Moment(), help="Show only those that were fired since then.")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def runs(
    context: click.Context,
    name: str | None,
    status: str | None,
    since: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """List chain runs, the newest first.

    \b
    Example:
      runward chain runs --status failed
    """
    from runward.daemon.cli.chain.runs import row_of
    from runward.daemon.store.reading_chains import chain_runs
    from runward.daemon.views.chain_runs import run_as_json

    with store_to_read(settings_in_force(context)) as connection:
        found = chain_runs(connection, name, status, since, limit or -1)
    if as_json:
        print_json([run_as_json(each) for each in found])
    elif not found:
        click.echo("no chain runs")
    else:
        print_table(("RUN", "CHAIN", "STATUS", "REASON", "STEP", "FIRED"), [row_of(each) for each in found])


@click.group("run", cls=Group)
def chain_run() -> None:
    """Show or cancel one run of a chain.

    \b
    Example:
      runward chain run show @last
    """


@chain_run.command("show")
@click.argument("identifier", metavar="ID", shell_complete=completing.chain_runs)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show_run(context: click.Context, identifier: str, as_json: bool) -> None:
    """Show the status of a chain run and of each step. ID is its id, a prefix of it, or @last.

    \b
    Example:
      runward chain run show @last
    """
    from runward.daemon.cli.chain.runs import asked_lines, echo, find_run, lines_of
    from runward.daemon.store.ownership import holder
    from runward.daemon.store.reading_chains import approvals_of_run, chain_steps, name_of_cause
    from runward.daemon.store.reading_invocations import invocations_of
    from runward.daemon.views.chain_runs import asked_as_json, asked_run, details_as_json, newest_asked_run

    settings = settings_in_force(context)
    state = Path(settings.state_dir)
    asked = newest_asked_run(state) if identifier == LAST else asked_run(state, identifier)
    if asked is not None:
        if as_json:
            print_json(asked_as_json(asked))
        else:
            echo(asked_lines(asked, is_up=holder(state) is not None))
        return
    with store_to_read(settings) as connection:
        row = find_run(connection, identifier)
        steps = chain_steps(connection, row.id)
        cause = name_of_cause(connection, row.id)
        invocations = invocations_of(connection, row.id)
        approvals = approvals_of_run(connection, row.id)
    if as_json:
        print_json(details_as_json(row, steps, invocations, approvals))
    else:
        echo(lines_of(row, steps, cause, approvals))


@chain_run.command("cancel")
@click.argument("identifier", metavar="ID", shell_complete=completing.chain_runs)
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def cancel_run(context: click.Context, identifier: str, reason: str, as_json: bool) -> None:
    """Cancel a chain run, and end the process tree of its step.

    It is durable when this returns, whether or not a daemon runs. If one runs, this waits until the request is accepted,
    or refused because the run is over (exit code 1).

    \b
    Example:
      runward chain run cancel @last --reason "the wrong branch"
    """
    from runward.daemon.cli.chain.runs import find_run, request_cancel
    from runward.daemon.cli.shell.request_waiting import note_without_daemon
    from runward.daemon.views.chain_runs import asked_run, newest_asked_run

    settings = settings_in_force(context)
    state = Path(settings.state_dir)
    asked = newest_asked_run(state) if identifier == LAST else asked_run(state, identifier)
    if asked is not None:
        run = asked.id
    else:
        with store_to_read(settings) as connection:
            row = find_run(connection, identifier)
        if row.status not in ("running", "waiting_approval"):
            fail(f"{row.id} is {row.status} already", 1)
        run = row.id
    is_cancelled = request_cancel(settings, run, reason, before_it_began=asked is not None)
    if as_json:
        print_json({"chain_run_id": run, "status": "cancelled" if is_cancelled else "asked"})
    else:
        click.echo(f"{run} is {'' if is_cancelled else 'to be '}cancelled")
    if not is_cancelled:
        note_without_daemon(Path(settings.state_dir))
