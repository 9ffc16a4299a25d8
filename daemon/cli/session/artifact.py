"""`runward artifact`: what sessions found out; and `runward outcome`: whether a file contains a valid outcome."""

import json
import os
import sqlite3
import sys
import time
from typing import Final, Literal

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_SO, WRONG_USAGE
from runward.daemon.cli.session.finding import find_session
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import (
    ask_daemon,
    new_request,
    note_if_late,
    note_without_daemon,
    once_taken_up,
)
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.shell.finding import Noun, find_called
from runward.daemon.cli.terminal.options import (
    NamedPath,
    filter_option,
    fleet_options,
    json_option,
    limit_option,
    listed,
    opened,
    since_option,
    without_fleet,
)
from runward.daemon.cli.terminal.output import (
    Columns,
    coloured,
    fail,
    print_json,
    print_list,
    print_one,
    print_text,
    safe,
    with_host,
)
from runward.daemon.store.tables.artifacts import ArtifactRow, Wanted, artifacts, artifacts_called, is_decided
from runward.daemon.store.tables.events import why_refused
from runward.daemon.views.outcomes import outcomes_as_json, shown_outcomes
from runward.daemon.views.text import ago
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.files import MEANINGS


@click.group(cls=Group)
def artifact() -> None:
    """List, show and add artifacts: the outcomes that sessions produced. For what agents share, see
    `runward exchange artifact`.

    \b
    Example:
      runward artifact list --kind review_verdict --passed false --since 7d
    """


def passed_text(row: ArtifactRow) -> str:
    """Whether it passed, in a word."""
    if row.passed is None:
        return "-"
    return coloured("ok", "passed") if row.passed else coloured("failed")


_COLUMNS: Final[Columns[ArtifactRow]] = {
    "ID": lambda row: safe(row.id),
    "KIND": lambda row: safe(row.kind),
    "NAME": lambda row: safe(row.name),
    "PASSED": passed_text,
    "SESSION": lambda row: safe(row.session_key.rpartition("/")[2]),
    "WHEN": lambda row: ago(row.updated_at, time.time()),
    "SUMMARY": lambda row: safe(row.summary or ""),
}


@artifact.command("list")
@click.option("--kind", shell_complete=completing.outcome_kinds, help="Show only those of this kind.")
@click.option(
    "--passed", type=click.Choice(["true", "false", "null"]), help="Show only those with this result."
)
@filter_option("--session", "ID", completing.sessions, "those of this session")
@filter_option("--chain-run", "ID", completing.chain_runs, "those of the steps of this chain run")
@since_option
@limit_option
@fleet_options
@listed(("HOST", *_COLUMNS))
@json_option()
@pass_settings
def list_artifacts(
    settings: Settings,
    kind: str | None,
    passed: str | None,
    session: str | None,
    chain_run: str | None,
    since: float | None,
    limit: int,
    is_fleet: bool,
    hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the outcomes of sessions, the newest first.

    With --fleet, the list is that of the fleet's database, with the host of each. Exit code 1: this machine belongs to no fleet, or the
    database refuses. 75: it can't be reached.

    \b
    Example:
      runward artifact list --kind review_verdict --passed false --since 7d
    """
    from runward.daemon.cli.chain.runs import find_run

    if is_fleet:
        from runward.daemon.cli.shell.fleet_lists import print_outcomes  # few hosts have one

        # Ids of another host's sessions and chain runs are not known here: what is given is how they begin.
        wanted = Wanted(kind, passed, session, chain_run, since, limit or -1)
        print_outcomes(settings, wanted, hosts, _COLUMNS, as_json=as_json)
        return
    without_fleet(hosts)

    with store_to_read(settings) as connection:
        key = None if session is None else find_session(connection, settings, session).key
        run = None if chain_run is None else find_run(connection, chain_run).id
        rows = artifacts(
            connection,
            Wanted(kind=kind, passed=passed, session=key, chain_run=run, since=since, limit=limit or -1),
        )
    print_list(
        rows if as_json else shown_outcomes(settings, rows),
        with_host(_COLUMNS, settings.fleet and settings.fleet.host),
        as_json,
        value=lambda row: outcomes_as_json(settings, [row])[0],
        nothing="no artifacts",
    )


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
@json_option()
@pass_settings
def add(
    settings: Settings,
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
    from runward.handlers.model.outcomes import ArtifactAddRequested, artifact_id
    from runward.handlers.outcomes.recording import record

    if not session:
        fail("no session is named: give --session, or call this in a session", WRONG_USAGE)
    value = None if content is None else _read(content)
    with store_to_read(settings) as connection:
        key = find_session(connection, settings, session).key
    event = new_request(ArtifactAddRequested, key, kind, name, content=value, file_path=path)
    made = record(event, event.at)
    if isinstance(made, str):
        fail(made, NOT_SO if kind and name and (content or path) else WRONG_USAGE)
    request = ask_daemon(settings, event, too_long=_TOO_LONG)
    status = once_taken_up(settings, lambda connection: _decided(connection, request)) or "asked"
    identifier = artifact_id(key, kind, name)
    print_one(as_json, {"id": identifier, "status": status}, safe(identifier))
    if status == "asked":
        note_if_late(settings, "stored it")
        note_without_daemon(settings)


_ARTIFACT: Final = Noun(
    "artifact",
    artifacts_called,
    newest=lambda store: artifacts(store, Wanted(limit=1)),
    none_yet="no session has produced an outcome yet",
)


@artifact.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.outcomes)
@json_option()
@pass_settings
def show(settings: Settings, identifier: str, as_json: bool) -> None:
    """Show an outcome with all its fields. ID is its id, a prefix of it, or @last.

    \b
    Example:
      runward artifact show @last
    """
    with store_to_read(settings) as connection:
        row = find_called(connection, _ARTIFACT, identifier)
    if as_json:
        print_json(outcomes_as_json(settings, [row])[0])
        return
    (row,) = shown_outcomes(settings, [row])
    print_text(f"artifact {safe(row.id)}: {safe(row.kind)} {safe(row.name)}, {passed_text(row)}")
    print_text(f"of {safe(row.session_key)}{_where(row)}")
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


_TOO_LONG = (
    "the content is too long (1 MiB): write it into a file of the session's artifacts, and give --file"
)


def _read(path: str) -> JsonValue:
    from runward.daemon.inbox.spool import MAXIMUM_REQUEST

    with opened(path) as stream:
        content = stream.read(MAXIMUM_REQUEST + 1)
    if len(content) > MAXIMUM_REQUEST:
        fail(_TOO_LONG, WRONG_USAGE)
    value = read_json(content)
    if isinstance(value, NotJson):
        fail(f"{path}: is not JSON: {value.message.removeprefix('not JSON: ')}", NOT_SO)
    return value


def _decided(connection: sqlite3.Connection, request: str) -> Literal["added"] | None:
    refused = why_refused(connection, request)
    is_over = is_decided(connection, request)
    if refused is not None:
        fail(refused, NOT_SO)
    return "added" if is_over else None


@click.group(cls=Group)
def outcome() -> None:
    """Check outcomes: the typed results of sessions.

    \b
    Example:
      runward outcome check outcome.json
    """


@outcome.command()
@click.argument("file", type=NamedPath(readable=False))
@click.option(
    "--kind",
    shell_complete=completing.outcome_kinds,
    help="The kind that the file must have; the file need not name it.",
)
@json_option()
def check(file: str, kind: str | None, as_json: bool) -> None:
    """Check the outcome in FILE.

    FILE is JSON, a JUnit report (.xml) or a SARIF log (.sarif).

    Exit code 1: it is invalid; each wrong field is reported. 3: no such file.

    \b
    Example:
      runward outcome check outcome.json --kind review_verdict
    """
    from runward.daemon.rundir.report_reading import read_report
    from runward.handlers.model.outcomes import OutcomeFile
    from runward.handlers.outcomes.reading import LARGEST, InvalidOutcome, read_outcome
    from runward.handlers.outcomes.report import REPORTS

    with opened(file) as stream:
        if file.endswith(REPORTS):
            outcome = OutcomeFile(file, None, read_report(file, stream.fileno()))
        else:
            content = stream.read(LARGEST + 1)
            outcome = OutcomeFile(file, content if len(content) <= LARGEST else None)
    outcome_read = read_outcome(outcome, kind, home=os.getcwd())
    if isinstance(outcome_read, InvalidOutcome):
        problems: list[JsonValue] = [
            {"field": each.field, "message": each.message} for each in outcome_read.problems
        ]
        if as_json:
            print_json(
                {"valid": False, "kind": kind, "outcome_kind": kind, "outcome": None, "problems": problems}
            )
        else:
            for each in outcome_read.problems:
                print_text(f"{safe(file)}: {safe(each.said())}")
        sys.exit(NOT_SO)
    checked = outcome_read.outcome
    if as_json:
        printed: dict[str, JsonValue] = {"valid": True, "kind": checked.kind, "outcome_kind": checked.kind}
        print_json({**printed, "problems": [], "outcome": checked.value})
        return
    kept = "" if checked.is_known else ", an unregistered kind: it is kept as it is"
    print_text(f"{coloured('ok', 'valid')}: {safe(checked.kind)}{kept}: {safe(checked.summary)}")
