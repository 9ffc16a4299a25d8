"""`runward session cancel` and `seen`: what a person asks of the daemon about sessions."""

import time

import click

from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import recorded_session
from runward.daemon.cli.terminal.options import timeout_option
from runward.daemon.store.reading_sessions import unseen_failures


@click.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option("--reason", default="", metavar="TEXT", help="The reason; it is kept with the session.")
@click.option("--wait", is_flag=True, help="Wait until the session is over.")
@timeout_option()
@click.option("--json", "as_json", is_flag=True, help="Print the request as JSON, or with --wait its result.")
@click.pass_context
def cancel(
    context: click.Context, identifier: str, reason: str, wait: bool, timeout: float, as_json: bool
) -> None:
    """Cancel a running session.

    Its launcher sends the process tree SIGTERM, then SIGKILL after the grace period.

    The request is durable when this returns, whether or not a daemon runs. With --wait, exit code 0: the
    session is over. 1: it can't be cancelled. 75: no daemon is running. 124: it took too long.

    \b
    Example:
      runward session cancel @last --reason "wrong branch" --wait
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = recorded_session(connection, settings, identifier)
    from runward.daemon.cli.session.cancel import cancel as carry_out

    carry_out(settings, row, reason, timeout if wait else None, as_json)


@click.command()
@click.argument("identifiers", metavar="[ID]...", nargs=-1, shell_complete=completing.sessions)
@click.option("--all", "all_of_them", is_flag=True, help="Mark all failures that `runward status` shows.")
@click.option("--wait", is_flag=True, help="Wait until this is recorded.")
@timeout_option()
@click.option("--json", "as_json", is_flag=True, help="Print the requests as JSON.")
@click.pass_context
def seen(
    context: click.Context,
    identifiers: tuple[str, ...],
    all_of_them: bool,
    wait: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Mark failed sessions as seen.

    `runward status` no longer shows them.

    The request is durable when this returns, whether or not a daemon runs. With --wait, exit code
    75: no daemon is running. 124: it took too long.

    \b
    Example:
      runward session seen --all
    """
    if bool(identifiers) == all_of_them:
        raise click.UsageError("name the sessions, or give --all", context)
    settings = settings_in_force(context)
    from runward.daemon.cli.session.seen import failures_among, mark_seen

    with store_to_read(settings) as connection:
        rows = unseen_failures(connection, time.time()).newest
        if not all_of_them:
            named = [recorded_session(connection, settings, each) for each in identifiers]
            rows = failures_among(named, [row.key for row in rows])
    mark_seen(settings, rows, timeout if wait else None, as_json)
