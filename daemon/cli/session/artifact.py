"""`runward artifact`: what sessions found out."""

import json
import sqlite3
import time

import click

from runward.daemon.cli.exits import NOT_FOUND
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import LAST, find_session, one_of
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.options import limit_option
from runward.daemon.cli.terminal.output import coloured, fail, print_json, print_table, safe
from runward.daemon.cli.terminal.times import Moment
from runward.daemon.store.reading_artifacts import ArtifactRow, Wanted, artifacts, artifacts_called
from runward.daemon.views.outcomes import outcomes_as_json, shown_outcomes
from runward.daemon.views.text import ago
from runward.handlers.model.files import MEANINGS


@click.group(cls=Group)
def artifact() -> None:
    """List, show and add artifacts: the outcomes that sessions produced. For what agents share, see
    `runward exchange artifact`.

    \b
    Example:
      runward artifact list --kind review_verdict --passed false --since 7d
    """


@artifact.command("list")
@click.option("--kind", shell_complete=completing.outcome_kinds, help="Show only those of this kind.")
@click.option(
    "--passed", type=click.Choice(["true", "false", "null"]), help="Show only those with this result."
)
@click.option(
    "--session", metavar="ID", shell_complete=completing.sessions, help="Show only those of this session."
)
@click.option(
    "--chain-run",
    metavar="ID",
    shell_complete=completing.chain_runs,
    help="Show only those of the steps of this chain run.",
)
@click.option("--since", type=Moment(), help="Show only those since then: 2h, today, a date.")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_artifacts(
    context: click.Context,
    kind: str | None,
    passed: str | None,
    session: str | None,
    chain_run: str | None,
    since: float | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the outcomes of sessions, the newest first.

    \b
    Example:
      runward artifact list --kind review_verdict --passed false --since 7d
    """
    from runward.daemon.cli.chain.runs import find_run

    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        key = None if session is None else find_session(connection, settings, session).key
        run = None if chain_run is None else find_run(connection, chain_run).id
        found = artifacts(connection, Wanted(kind, passed, key, run, since, limit or -1))
    if as_json:
        print_json(outcomes_as_json(settings, found))
    elif not found:
        click.echo("no artifacts")
    else:
        print_table(
            ("ID", "KIND", "NAME", "PASSED", "SESSION", "WHEN", "SUMMARY"),
            [_row(each) for each in shown_outcomes(settings, found)],
        )


def _row(row: ArtifactRow) -> tuple[str, ...]:
    return (
        safe(row.id),
        safe(row.kind),
        safe(row.name),
        passed_text(row),
        safe(row.session_key.rpartition("/")[2]),
        ago(row.updated_at, time.time()),
        safe(row.summary or ""),
    )


def passed_text(row: ArtifactRow) -> str:
    """Whether it passed, in a word."""
    if row.passed is None:
        return "-"
    return coloured("ok", "passed") if row.passed else coloured("failed")


@artifact.command()
@click.option("--kind", required=True, shell_complete=completing.outcome_kinds, help="Its kind.")
@click.option("--name", required=True, help="Its name; an artifact of the same kind and name is replaced.")
@click.option(
    "--session",
    metavar="ID",
    envvar="RUNWARD_SESSION_ID",
    shell_complete=completing.sessions,
    help="The session that it belongs to (default: the one that the command is called in).",
)
@click.option(
    "--content", type=NamedPath(readable=False), metavar="FILE", help="A file with its content as JSON."
)
@click.option(
    "--file",
    "path",
    metavar="PATH",
    shell_complete=completing.files,
    help="A file that belongs to it, below the session's artifacts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def add(
    context: click.Context,
    kind: str,
    name: str,
    session: str | None,
    content: str | None,
    path: str | None,
    as_json: bool,
) -> None:
    """Add an artifact to a session. It is durable when this returns, whether or not a daemon runs.

    The content of a registered kind is an outcome and is checked; that of any other kind is any JSON.

    \b
    Example:
      runward artifact add --kind ci_result --name ci --content ci.json
    """
    from runward.daemon.cli.session.artifact_adding import add_artifact

    add_artifact(settings_in_force(context), kind, name, session, content, path, as_json=as_json)


@artifact.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.outcomes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(context: click.Context, identifier: str, as_json: bool) -> None:
    """Show an outcome with all its fields. ID is its id, a prefix of it, or @last.

    \b
    Example:
      runward artifact show @last
    """
    settings = settings_in_force(context)
    with store_to_read(settings) as connection:
        row = _find(connection, identifier)
    if as_json:
        print_json(outcomes_as_json(settings, [row])[0])
        return
    (row,) = shown_outcomes(settings, [row])
    click.echo(f"artifact {safe(row.id)}: {safe(row.kind)} {safe(row.name)}, {passed_text(row)}")
    click.echo(f"of {safe(row.session_key)}{_where(row)}")
    content = None if row.content is None else json.loads(row.content)
    click.echo(
        "\n".join(safe(line) for line in json.dumps(content, indent=2, ensure_ascii=False).splitlines())
    )


def _where(row: ArtifactRow) -> str:
    if row.file_path is None:
        return ""
    path = safe(row.file_path)
    if not row.names_file:
        return f", from {path}"
    if row.file_problem is not None:
        return f", in {path}, which {MEANINGS[row.file_problem]}"
    hashed = (
        "not hashed yet" if row.file_sha256 is None else f"{row.file_size} bytes, sha256 {row.file_sha256}"
    )
    return f", in {path}: {hashed}"


def _find(connection: sqlite3.Connection, text: str) -> ArtifactRow:
    if text == LAST:
        newest = artifacts(connection, Wanted(limit=1))
        if not newest:
            fail("no session has produced an outcome yet", NOT_FOUND)
        return newest[0]
    return one_of("artifact", text, artifacts_called(connection, text))
