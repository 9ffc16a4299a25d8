"""`runward outcome`: whether a file contains a valid outcome."""

import os
import sys

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_SO
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.given_file import opened
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import coloured, print_json, safe


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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
    found = read_outcome(outcome, kind, home=os.getcwd())
    if isinstance(found, InvalidOutcome):
        problems: list[JsonValue] = [
            {"field": each.field, "message": each.message} for each in found.problems
        ]
        if as_json:
            print_json(
                {"valid": False, "kind": kind, "outcome_kind": kind, "outcome": None, "problems": problems}
            )
        else:
            for each in found.problems:
                click.echo(f"{safe(file)}: {safe(each.said())}")
        sys.exit(NOT_SO)
    checked = found.outcome
    if as_json:
        said: dict[str, JsonValue] = {"valid": True, "kind": checked.kind, "outcome_kind": checked.kind}
        print_json({**said, "problems": [], "outcome": checked.value})
        return
    kept = "" if checked.is_known else ", an unregistered kind: it is kept as it is"
    click.echo(f"{coloured('ok', 'valid')}: {safe(checked.kind)}{kept}: {safe(checked.summary)}")
