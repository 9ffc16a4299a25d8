"""`runward session show`, `verify`, `diff` and `export`: what a session left."""

import sys
import time

import click

from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import find_session, recorded_session
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import note, print_json
from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_artifacts import Wanted, artifacts
from runward.daemon.store.reading_files import kept_files
from runward.daemon.store.reading_problems import problems
from runward.daemon.store.reading_sessions import is_unseen_failure
from runward.daemon.views.sessions import session_as_json
from runward.handlers.secrets import text_without_secrets


@click.command()
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
        from runward.daemon.cli.session.text import lines_of
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
    click.echo(text_without_secrets("\n".join(lines), settings.bundle.redact))
    if is_news and sys.stdout.isatty():  # a pipe may have cut it short, and a program is not a person
        from runward.daemon.cli.session.seen import shown

        shown(settings, row)


@click.command()
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
        from runward.daemon.cli.session.record import check_record
        from runward.daemon.cli.session.verify import verify_again

        record = check_record(connection, settings.state_dir, row.key)
    sys.exit(verify_again(row, kept, record, as_json))


@click.command()
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


@click.command()
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
