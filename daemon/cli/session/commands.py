"""`runward session`: what ran, and the results."""

import sys
import time

import click

from runward.daemon.cli.session.listing import list_sessions
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import find_session, recorded_session
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.options import Length, timeout_option
from runward.daemon.cli.terminal.output import note, print_json
from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_artifacts import Wanted, artifacts
from runward.daemon.store.reading_files import kept_files
from runward.daemon.store.reading_problems import problems
from runward.daemon.store.reading_sessions import is_unseen_failure, unseen_failures
from runward.daemon.views.sessions import session_as_json
from runward.handlers.secrets import text_without_secrets


@click.group(cls=Group)
def session() -> None:
    """Show, follow, cancel, verify and export sessions.

    ID is a session's id or key, a unique beginning of one, or @last for the newest.

    \b
    Example:
      runward session list --status failed
      runward session show @last
    """


session.add_command(list_sessions)


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(context: click.Context, identifier: str, as_json: bool) -> None:
    """Show one session: status, contract, verification and files.

    \b
    Example:
      runward session show @last
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
        if as_json:
            print_json(session_as_json(connection, settings, row, note))
            return
        history = reading_sessions.status_history(connection, row.key)
        kept = kept_files(connection, [row.key]).get(row.key, [])
        outcomes = artifacts(connection, Wanted(session=row.key))[::-1]
        from runward.daemon.views.bundles import bundle_text, shown_bundle

        bundle = shown_bundle(connection, settings, row)
        from runward.daemon.cli.session.show import lines_of
        from runward.daemon.views.bundles import journal_place
        from runward.daemon.views.outcomes import not_delivered

        journal = journal_place(settings.state_dir, row)
        lines = lines_of(
            row,
            journal,
            history,
            kept,
            not_delivered(connection, row.key),
            outcomes,
            time.time(),
            None if bundle is None else bundle_text(bundle),
            problems(connection, row.path),
        )
        is_news = is_unseen_failure(connection, row.key, time.time())
    click.echo(text_without_secrets("\n".join(lines), settings.bundle.rules.redact))
    if is_news and sys.stdout.isatty():  # a pipe may have cut it short, and a program is not a person
        from runward.daemon.cli.session.asking import shown

        shown(settings, row)


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def verify(context: click.Context, identifier: str, as_json: bool) -> None:
    """Verify a session again, and show what changed.

    The contract is the one in the store.

    Files are compared by size and time, and by content if they were hashed. The record is checked, too:
    journals by content, events by their hashes. Exit code 0: nothing changed (without a contract, only
    the record counts). 1: something changed, or the session is still running. 75: the directory or a
    journal can't be read.

    \b
    Example:
      runward session verify @last
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = recorded_session(connection, settings, identifier)
        kept = kept_files(connection, [row.key]).get(row.key, [])
        from runward.daemon.cli.session.verify import check_record, verify_again

        record = check_record(connection, settings.state_dir, row.key)
    sys.exit(verify_again(row, kept, record, as_json))


@session.command()
@click.argument("left", metavar="ID", shell_complete=completing.sessions)
@click.argument("right", metavar="ID", shell_complete=completing.sessions)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def diff(context: click.Context, left: str, right: str, as_json: bool) -> None:
    """Compare what two sessions did.

    They are identical if they made the same calls (tool, params, output) in the same order and ended in the same way;
    ids, times and cost do not count. Exit code 0: identical. 1: different.

    \b
    Example:
      runward session diff one two
    """
    settings = settings_in_force(context)
    from runward.daemon.cli.session.diff import print_difference

    with store_to_read(settings) as connection:
        rows = [recorded_session(connection, settings, each) for each in (left, right)]
        sys.exit(print_difference(connection, settings, rows[0], rows[1], as_json))


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option(
    "--output",
    "directory",
    required=True,
    metavar="DIR",
    type=NamedPath(),
    shell_complete=completing.directories,
    help="The directory for the parts; it is created if it doesn't exist.",
)
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    metavar="N",
    help="The attempt (default: the last one).",
)
@click.option("--force", is_flag=True, help="Replace existing parts that differ.")
@click.option("--json", "as_json", is_flag=True, help="Print the parts with their sizes and hashes.")
@click.pass_context
def export(
    context: click.Context, identifier: str, directory: str, attempt: int | None, force: bool, as_json: bool
) -> None:
    """Write the bundle of a session into a directory.

    The bundle is REPLAY.jsonl, RECEIPT.json and PR_SUMMARY.md.

    If the daemon writes none (history, or `bundle = false`), it is made now, from the session's files. Other files in DIR
    stay. Exit code 1: the session is running, or a part already exists and differs. 75: the bundle is still being made.

    \b
    Example:
      runward session export @last --output ./bundle
    """
    settings = settings_in_force(context)
    from runward.daemon.cli.session.export import export_bundle

    with store_to_read(settings) as connection:
        row = recorded_session(connection, settings, identifier)
        export_bundle(connection, settings, row, attempt, directory, force, as_json)


@session.command()
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
    from runward.daemon.cli.session.watching import wait_until_over

    wait_until_over(settings, row, timeout, as_json)


@session.command()
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
    from runward.daemon.cli.session.watching import Form, print_output

    name = "stderr.log" if is_stderr else "stdout.log"
    form: Form = "raw" if raw else "json" if as_json else "safe"
    print_output(settings, row, name, follow=follow, count=count, form=form)


@session.command()
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
    from runward.daemon.cli.session.watching import print_journal

    print_journal(settings.state_dir, row, follow, count, as_json)


@session.command()
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
    from runward.daemon.cli.session.asking import cancel as carry_out

    carry_out(settings, row, reason, timeout if wait else None, as_json)


@session.command()
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
    from runward.daemon.cli.session.asking import failures_among, mark_seen

    with store_to_read(settings) as connection:
        rows = unseen_failures(connection, time.time()).newest
        if not all_of_them:
            named = [recorded_session(connection, settings, each) for each in identifiers]
            rows = failures_among(named, [row.key for row in rows])
    mark_seen(settings, rows, timeout if wait else None, as_json)
