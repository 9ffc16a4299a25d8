"""`runward training`: the calls of sessions as training data."""

import json
import os
from collections.abc import Iterator

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.daemon.cli.exits import WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read
from runward.daemon.cli.shell.finding import recorded_session
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.options import Moment
from runward.daemon.cli.terminal.output import fail, print_json, safe
from runward.daemon.store import reading_sessions
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.replay import replay_of
from runward.handlers.bundle.replay_view import ToldCall

SIGNATURE = "ToolCallSignature"


@click.group(cls=Group)
def training() -> None:
    """Export what sessions did, call by call, as training data with labels.

    \b
    Example:
      runward training export --since today --output calls.jsonl
    """


@training.command()
@click.option(
    "--since",
    type=Moment(),
    metavar="TIME",
    help="Export only sessions that started since then: 2h, today, a date.",
)
@click.option(
    "--session",
    "identifier",
    metavar="ID",
    shell_complete=completing.sessions,
    help="Export only this session.",
)
@click.option(
    "--output",
    "file",
    required=True,
    metavar="FILE",
    type=NamedPath(),
    help="The file to write; - is stdout.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers of calls and sessions as JSON.")
@click.pass_context
def export(
    context: click.Context, since: float | None, identifier: str | None, file: str, as_json: bool
) -> None:
    """Export each call of each finished session.

    Each becomes one line of JSON, with its label.

    Inputs and outputs are as in the replay: secrets are redacted, long texts cut.

    \b
    Example:
      runward training export --session @last --output calls.jsonl
    """
    settings = settings_in_force(context)
    calls = 0
    with store_to_read(settings) as connection:
        if identifier is not None:
            rows = [recorded_session(connection, settings, identifier)]
        else:
            rows = list(
                reversed(reading_sessions.sessions(connection, reading_sessions.Wanted(since=since), None))
            )
        rows = [row for row in rows if row.status != "running"]
        try:
            with click.open_file(file, "w", encoding="utf-8", atomic=file != "-") as output:
                for row in rows:
                    read = replay_of(connection, settings, row)
                    for line in _lines(row, read.told.calls, read.costs, read.told.verification_delta):
                        output.write(json.dumps(line, ensure_ascii=False) + "\n")
                        calls += 1
        except OSError as error:
            fail(f"{safe(os.fspath(file))}: {error.strerror}", WRONG_USAGE)
    if as_json:
        print_json({"calls": calls, "sessions": len(rows)})
    elif file != "-":
        click.echo(
            f"{safe(os.fspath(file))}  {counted(calls, 'call', 'calls')} of {counted(len(rows), 'session', 'sessions')}"
        )


def _lines(
    row: SessionRow, calls: list[ToldCall], costs: dict[str, JsonValue], delta: JsonValue
) -> Iterator[dict[str, JsonValue]]:
    made: set[tuple[str, str]] = set()
    for call in calls:
        yield {
            "signature": SIGNATURE,
            "session_id": row.session_id,
            "call_id": call.id,
            "tool": call.tool,
            "inputs": call.params,
            "outputs": call.output,
            "step_utility": call.step_utility,
            "verification_delta": delta,
            "cost_tokens": costs.get(call.id),
            "cost_tool_calls": 1,
            "was_repeated": call.made in made,
        }
        made.add(call.made)
