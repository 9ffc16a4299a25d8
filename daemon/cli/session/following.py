"""`runward session wait`, `logs` and `tail`: what a run does until it is over."""

import click

from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import find_session
from runward.daemon.cli.terminal.times import Length


@click.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option(
    "--timeout", type=Length(), metavar="DURATION", help="Wait at most this long (default: no limit)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the session as JSON, as in `session list`.")
@click.pass_context
def wait(context: click.Context, identifier: str, timeout: float | None, as_json: bool) -> None:
    """Wait until a session is over and judged, and exit with its status.

    Exit code 0: completed. 1: failed. 124: timed out. 130: aborted. 143: cancelled. Also 75: it is not judged
    and no daemon is running; 124: it was not over within --timeout.

    \b
    Example:
      runward session wait @last --timeout 1h
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
    from runward.daemon.cli.session.wait import wait_until_over

    wait_until_over(settings, row, timeout, as_json)


@click.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option("-f", "--follow", is_flag=True, help="Print new output as it comes, until the run is over.")
@click.option("--stderr", "is_stderr", is_flag=True, help="Show stderr instead of stdout.")
@click.option(
    "-n", "--lines", "count", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines."
)
@click.option("--raw", is_flag=True, help="Print the bytes unchanged, including terminal control characters.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as a JSON object with its text.")
@click.pass_context
def logs(
    context: click.Context,
    identifier: str,
    follow: bool,
    is_stderr: bool,
    count: int | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Show what a run printed. Terminal control characters are escaped.

    A run in a terminal has one stream for stdout and stderr. If a log was shortened, a line says by how much.

    \b
    Example:
      runward session logs @last -f
    """
    if follow and count is not None:
        raise click.UsageError("-n can't be combined with -f", context)
    if raw and as_json:
        raise click.UsageError("--raw can't be combined with --json", context)
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
    from runward.daemon.cli.session.logs import Form, print_output

    name = "stderr.log" if is_stderr else "stdout.log"
    form: Form = "raw" if raw else "json" if as_json else "safe"
    print_output(settings, row, name, follow=follow, count=count, form=form)


@click.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come, until the session is over.")
@click.option(
    "-n", "--lines", "count", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list, or with -f one value a line.")
@click.pass_context
def tail(context: click.Context, identifier: str, follow: bool, count: int | None, as_json: bool) -> None:
    """Show the journal of a session, as it is in its run directory.

    A line that is not JSON is shown as it is; with --json, it is reported on stderr.

    \b
    Example:
      runward session tail @last -f
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
    from runward.daemon.cli.session.tail import print_journal

    print_journal(settings.state_dir, row, follow, count, as_json)
