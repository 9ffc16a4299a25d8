"""`runward session`: what ran, and the results."""

import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO
from runward.daemon.cli.session.finding import find_session, recorded_session, refuse_pruned
from runward.daemon.cli.session.listing import list_sessions
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import (
    ask_daemon,
    need_daemon,
    new_request,
    note_without_daemon,
    wait_for,
)
from runward.daemon.cli.shell.context import is_daemon_up, pass_settings, settings_in_force, store_to_read
from runward.daemon.cli.terminal.options import (
    Length,
    NamedPath,
    attempt_option,
    json_option,
    junit_option,
    no_pager_option,
    patience_options,
    watched,
    write_report,
)
from runward.daemon.cli.terminal.output import (
    coloured,
    fail,
    fitting,
    note,
    print_json,
    print_lines,
    print_text,
    safe,
)
from runward.daemon.store.tables import sessions
from runward.daemon.store.tables.artifacts import ArtifactRow, Wanted, artifacts
from runward.daemon.store.tables.files import KeptFile, kept_files
from runward.daemon.store.tables.problems import ProblemRow, problems
from runward.daemon.store.tables.session_lists import is_unseen_failure, unseen_failures
from runward.daemon.store.tables.sessions import (
    SessionRow,
    StatusChange,
    contract_of,
    rules_of,
    verification_of,
)
from runward.daemon.views.sessions import orderer_of, session_as_json, shown_cost, why_not_cancelled


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
@click.option(
    "--all", "is_whole", is_flag=True, help="On a terminal, show everything: keys, evidence, hashes."
)
@no_pager_option
@json_option()
@junit_option
@watched
@pass_settings
def show(settings: Settings, identifier: str, is_whole: bool, as_json: bool, junit: str | None) -> None:
    """Show one session: status, contract, verification and files.

    Exit code 75: the report can't be written.

    \b
    Example:
      runward session show @last
    """
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
        if junit is not None:
            _write_junit(connection, settings, row, junit)
        if as_json:
            notes: list[str] = []
            told = session_as_json(connection, settings, row, notes.append)
        else:
            described = _described(connection, settings, row)
            is_screen = sys.stdout.isatty() and not is_whole
            text = _screen(connection, settings, described) if is_screen else _whole(settings, described)
            # Asked in the same transaction as the status: a resumed session may have another one by now.
            is_news = is_unseen_failure(connection, row.key, time.time())
    # A slow reader of the pipe must hold no transaction open.
    if as_json:
        for each in notes:
            note(each)
        print_json(told)
        return
    print_lines(fitting(text))
    if is_news and sys.stdout.isatty():  # a pipe may have cut it short, and a program is not a person
        mark_shown(settings, row)


def _write_junit(connection: sqlite3.Connection, settings: Settings, row: SessionRow, file: str) -> None:
    from runward.daemon.views.checks import check_of_end, checks_of
    from runward.daemon.views.outcomes import not_delivered
    from runward.handlers.secrets import text_without_secrets

    why = not_delivered(connection, row.key)
    write_report(
        file,
        row.session_id,
        [
            check_of_end(row.status, row.reason_code, row.reason_summary),
            *checks_of(contract_of(row), verification_of(row), [*rules_of(row)], why),
        ],
        row.started_at,
        (row.finished_at or time.time()) - row.started_at,
        lambda text: text_without_secrets(text, settings.bundle.rules.redact),
    )


class Described(NamedTuple):
    """What is told of a session; `bundle`, `cost` and `calls` are in words, `why` says by path why a file doesn't count."""

    row: SessionRow
    history: Sequence[StatusChange]
    kept: Sequence[KeptFile]
    why: Mapping[str, str]
    outcomes: Sequence[ArtifactRow]
    bundle: str | None
    problems: Sequence[ProblemRow]
    cost: str | None
    calls: str | None
    ordered: Mapping[str, JsonValue] | None
    """Who ordered it from this host, as `ordered_by` has it."""


def _whole(settings: Settings, session: Described) -> str:
    """All of it, without secrets."""
    from runward.daemon.cli.session.show import lines_of
    from runward.daemon.views.bundles import journal_place
    from runward.handlers.secrets import text_without_secrets  # of the commands here, only this one searches

    journal = journal_place(settings.state_dir, session.row)
    lines = lines_of(journal=journal, now=time.time(), **session._asdict())
    return text_without_secrets("\n".join(lines), settings.bundle.rules.redact)


def _described(connection: sqlite3.Connection, settings: Settings, row: SessionRow) -> Described:
    from runward.daemon.views.bundles import bundle_text, calls_text, shown_bundle
    from runward.daemon.views.outcomes import not_delivered

    bundle = shown_bundle(connection, settings, row)
    return Described(
        row=row,
        history=sessions.status_history(connection, row.key),
        kept=kept_files(connection, [row.key]).get(row.key, []),
        why=not_delivered(connection, row.key),
        outcomes=artifacts(connection, Wanted(session=row.key))[::-1],
        bundle=None if bundle is None else bundle_text(bundle),
        problems=problems(connection, row.path),
        cost=shown_cost(connection, settings, row),
        calls=None if bundle is None else calls_text(bundle),
        ordered=orderer_of(connection, row.key),
    )


def _screen(connection: sqlite3.Connection, settings: Settings, session: Described) -> str:
    """What matters of it, on one screen."""
    from runward.daemon.cli.session.page import Shown, page
    from runward.daemon.cli.terminal.signs import terminal_here
    from runward.daemon.views.answers import answer_of
    from runward.daemon.views.outcomes import expected_artifacts
    from runward.daemon.views.why import session_story
    from runward.handlers.secrets import text_without_secrets

    row, redact = session.row, settings.bundle.rules.redact
    story = session_story(connection, row, is_daemon_up(settings), time.time())
    shown = Shown(
        row=row,
        answer=answer_of(connection, story),
        history=session.history,
        expected=expected_artifacts(contract_of(row), verification_of(row), session.why),
        bundle=session.bundle,
        cost=session.cost,
        calls=session.calls,
        ordered=session.ordered,
        problems=session.problems,
    )
    return "\n".join(page(shown, terminal_here(), lambda text: text_without_secrets(text, redact)))


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@json_option()
@pass_settings
def verify(settings: Settings, identifier: str, as_json: bool) -> None:
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
    with store_to_read(settings) as connection:
        row = recorded_session(connection, settings, identifier)
        kept = kept_files(connection, [row.key]).get(row.key, [])
        from runward.daemon.cli.session.verify import check_record, verify_again

        record = check_record(connection, settings.state_dir, row.key)
    # The store is closed before: hashing may take minutes, and its file of changes grows while somebody reads.
    sys.exit(verify_again(row, kept, record, as_json))


@session.command()
@click.argument("left", metavar="ID", shell_complete=completing.sessions)
@click.argument("right", metavar="ID", shell_complete=completing.sessions)
@json_option()
@pass_settings
def diff(settings: Settings, left: str, right: str, as_json: bool) -> None:
    """Compare what two sessions did.

    They are identical if they made the same calls (tool, params, output) in the same order and ended in the same way;
    ids, times and cost do not count. Exit code 0: identical. 1: different.

    \b
    Example:
      runward session diff one two
    """
    from runward.daemon.cli.session.calls import print_difference

    sys.exit(print_difference(settings, left, right, as_json))


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option(
    "--format",
    "form",
    type=click.Choice(["bundle", "atif"]),
    default="bundle",
    show_default=True,
    help="What to write: the bundle, or a trajectory that evaluation tools read.",
)
@click.option(
    "--output",
    metavar="PATH",
    type=NamedPath(),
    shell_complete=completing.directories,
    help="The bundle's directory, which is created if it doesn't exist; or the trajectory's file (default: stdout).",
)
@attempt_option
@click.option("--force", is_flag=True, help="Replace existing parts of a bundle that differ.")
@json_option("Print the parts of the bundle with their sizes and hashes.")
@pass_settings
def export(
    settings: Settings,
    identifier: str,
    form: str,
    output: str | None,
    attempt: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the bundle of a session into a directory, or its trajectory.

    The bundle is REPLAY.jsonl, RECEIPT.json and PR_SUMMARY.md. A trajectory is the whole session in ATIF, the format of
    Harbor: steps, calls, results, tokens.

    If the daemon writes none (history, or `bundle = false`), it is made now, from the session's files. Other files in DIR
    stay. Exit code 1: the session is running, or a part already exists and differs. 75: the bundle is still being made.

    \b
    Example:
      runward session export @last --output ./bundle
      runward session export @last --format atif --output trajectory.json
    """
    if form == "atif":
        if attempt is not None or force or as_json:
            raise click.UsageError("--attempt, --force and --json are for a bundle.")
        from runward.daemon.cli.session.trajectory import export_trajectory

        with store_to_read(settings) as connection:
            row = recorded_session(connection, settings, identifier)
            export_trajectory(connection, settings, row, output)
        return
    if output is None:
        raise click.UsageError("Missing option '--output': a bundle needs a directory.")
    from runward.daemon.cli.session.calls import export_bundle

    with store_to_read(settings) as connection:
        row = recorded_session(connection, settings, identifier)
        export_bundle(
            connection=connection,
            settings=settings,
            row=row,
            attempt=attempt,
            directory=output,
            force=force,
            as_json=as_json,
        )


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option(
    "--timeout", type=Length(), metavar="DURATION", help="Wait at most this long (default: no limit)."
)
@click.option(
    "--notify", "is_told", is_flag=True, help="Then show a notice on the terminal, and ring its bell."
)
@json_option("Print the session as JSON, as in `session list`.")
@pass_settings
def wait(settings: Settings, identifier: str, timeout: float | None, is_told: bool, as_json: bool) -> None:
    """Wait until a session is over and judged, and exit with its status.

    Exit code 0: completed. 1: failed. 124: timed out. 130: aborted. 143: cancelled. Also 75: it is not judged
    and no daemon is running; 124: it was not over within --timeout.

    \b
    Example:
      runward session wait @last --timeout 1h
    """
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
    from runward.daemon.cli.session.watching import wait_until_over

    wait_until_over(settings, row, timeout, as_json, is_told)


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option("-f", "--follow", is_flag=True, help="Print new output as it comes, until the run is over.")
@click.option("--stderr", "is_stderr", is_flag=True, help="Show stderr instead of stdout.")
@click.option(
    "-n", "--lines", "count", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines."
)
@click.option("--raw", is_flag=True, help="Print the bytes unchanged, including terminal control characters.")
@no_pager_option
@json_option("Print each line as a JSON object with its text.")
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
@no_pager_option
@json_option("Print JSON: a list, or with -f one value a line.")
@pass_settings
def tail(settings: Settings, identifier: str, follow: bool, count: int | None, as_json: bool) -> None:
    """Show the journal of a session, as it is in its run directory.

    A line that is not JSON is shown as it is; with --json, it is reported on stderr.

    \b
    Example:
      runward session tail @last -f
    """
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, identifier)
    from runward.daemon.cli.session.watching import print_journal

    print_journal(settings.state_dir, row, follow, count, as_json)


@session.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option("--reason", default="", metavar="TEXT", help="The reason; it is kept with the session.")
@patience_options("Wait until the session is over.")
@json_option("Print the request as JSON, or with --wait its result.")
@pass_settings
def cancel(settings: Settings, identifier: str, reason: str, patience: float | None, as_json: bool) -> None:
    """Cancel a running session.

    Its launcher sends the process tree SIGTERM, then SIGKILL after the grace period.

    The request is durable when this returns, whether or not a daemon runs. With --wait, exit code 0: the
    session is over. 1: it can't be cancelled. 75: no daemon is running. 124: it took too long.

    \b
    Example:
      runward session cancel @last --reason "wrong branch" --wait
    """
    from runward.handlers.model.requests import SessionCancelRequested

    with store_to_read(settings) as connection:
        row = recorded_session(connection, settings, identifier)
    problem = why_not_cancelled(row)
    if problem is not None:
        fail(f"session {safe(row.session_id)} {safe(problem)}", NOT_SO)
    if patience is not None:
        need_daemon(settings)
    request = ask_daemon(settings, new_request(SessionCancelRequested, row.key, row.attempt, reason))
    if patience is None:
        _print_standing(Standing(row, False), request, as_json)
        note_without_daemon(settings)
        return
    sys.exit(_wait_until_over(settings, row, request, patience, as_json))


@session.command()
@click.argument("identifiers", metavar="[ID]...", nargs=-1, shell_complete=completing.sessions)
@click.option("--all", "all_of_them", is_flag=True, help="Mark all failures that `runward status` shows.")
@patience_options("Wait until this is recorded.")
@json_option("Print the requests as JSON.")
@click.pass_context
def seen(
    context: click.Context,
    identifiers: tuple[str, ...],
    all_of_them: bool,
    patience: float | None,
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

    with store_to_read(settings) as connection:
        rows = unseen_failures(connection, time.time()).newest
        if not all_of_them:
            named = [recorded_session(connection, settings, each) for each in identifiers]
            rows = failures_among(named, [row.key for row in rows])
    if patience is not None and rows:
        need_daemon(settings)
    # All are left before the first is waited for: the daemon takes them up in one batch.
    requests = {row.key: _ask_to_mark(settings, row) for row in rows}
    if patience is not None and rows:
        _wait_until_recorded(settings, rows, patience)
    if as_json:
        printed: list[JsonValue] = [{"session": key, "request": request} for key, request in requests.items()]
        print_json(printed)
    else:
        print_text(f"{counted(len(rows), 'failure', 'failures')} seen")
    if rows and patience is None:
        note_without_daemon(settings, "it will be recorded when one starts")


class Standing(NamedTuple):
    """The state of a request. `refusal` says why nothing follows, `outcome` which process was signalled."""

    session: SessionRow
    is_over: bool
    refusal: str | None = None
    outcome: str | None = None


def _wait_until_over(
    settings: Settings, row: SessionRow, request: str, patience: float, as_json: bool
) -> int:
    """Wait until the attempt is over or the request refused; returns the exit code."""
    standing = Standing(row, False)

    def settled(connection: sqlite3.Connection) -> Standing | None:
        nonlocal standing
        standing = _standing(connection, row, request)
        return standing if standing.is_over or standing.refusal is not None else None

    def progress() -> str:
        signalled = safe(standing.outcome or "no process was asked to end yet")
        return f"session {safe(row.session_id)} is not over yet ({signalled}); the request is kept"

    _print_standing(wait_for(settings, patience, settled, progress), request, as_json)
    return GOOD if standing.is_over else NOT_SO


def _standing(connection: sqlite3.Connection, row: SessionRow, request: str) -> Standing:
    from runward.daemon.store.tables import cancellations, events

    now = sessions.session(connection, row.key)
    if now is None:
        refuse_pruned(connection, row.key)
        fail(f"the record of {safe(row.session_id)} no longer exists", NOT_FOUND)
    is_over = now.attempt != row.attempt or now.status != "running"
    event = events.event_recorded(connection, request)
    if event is None:
        return Standing(now, is_over)
    order = cancellations.cancellation(connection, event)
    if order is not None:
        refusal = order.outcome if order.told is False else None
        return Standing(now, is_over, refusal, order.outcome)
    refused = (each.summary for each in events.decisions_about(connection, row.key) if each.event == event)
    return Standing(now, is_over, next(refused, None))


def _print_standing(standing: Standing, request: str, as_json: bool) -> None:
    session = standing.session
    if as_json:
        print_json(
            {
                "session": session.key,
                "request": request,
                "status": session.status,
                "reason_code": session.reason_code,
                "refusal": standing.refusal,
                "outcome": standing.outcome,
            }
        )
        return
    name = safe(session.session_id)
    if standing.is_over:
        print_text(f"session {name} is {coloured(session.status)}: {safe(session.reason_summary)}")
    elif standing.refusal is not None:
        print_text(f"session {name} is {coloured(session.status)}: {safe(standing.refusal)}")
    else:
        print_text(f"session {name} will be cancelled")


def _ask_to_mark(settings: Settings, row: SessionRow) -> str:
    from runward.handlers.model.requests import SessionSeenRequested  # `session show` seldom needs it

    return ask_daemon(settings, new_request(SessionSeenRequested, row.key, row.attempt))


def mark_shown(settings: Settings, row: SessionRow) -> None:
    """A failure was shown in full: its reader has seen it. Without a daemon, nothing is recorded."""
    if not is_daemon_up(settings):
        return
    try:
        _ask_to_mark(settings, row)
    except OSError as error:
        note(
            f"it could not be recorded that this was seen: {error.strerror}; `runward status` keeps showing it"
        )


def failures_among(rows: Sequence[SessionRow], failures: Sequence[str]) -> list[SessionRow]:
    """The sessions among these that `status` shows; the others are named."""
    for row in rows:
        if row.key not in failures:
            note(f"{safe(row.session_id)} is {row.status}: it is not a failure that `runward status` shows")
    return [row for row in rows if row.key in failures]


def _wait_until_recorded(settings: Settings, rows: Sequence[SessionRow], patience: float) -> None:
    def all_seen(connection: sqlite3.Connection) -> bool | None:
        return all(sessions.is_seen(connection, row.key, row.attempt) for row in rows) or None

    wait_for(settings, patience, all_seen, lambda: "it is not recorded yet; the request is kept")
