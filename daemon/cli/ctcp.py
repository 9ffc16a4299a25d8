"""`runward ctcp`: check a CTCP run directory against the artifact contracts, without daemon or store."""

import os
import sys
from collections.abc import Callable, Mapping

import click
from click.shell_completion import CompletionItem

from runward.config.problem import counted
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.terminal.options import NamedPath, json_option
from runward.daemon.cli.terminal.output import coloured, fail, print_json, print_text, safe
from runward.handlers.ctcp.documents import Documents
from runward.handlers.ctcp.rules import LETTERS, Finding, Report


def _completed_letters(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The letters that can follow the ones already written."""
    written, comma, last = incomplete.rpartition(",")
    named = written.upper().split(",")
    return [
        CompletionItem(f"{written}{comma}{letter}")
        for letter in LETTERS
        if letter not in named and letter.startswith(last.upper())
    ]


@click.group(cls=Group)
def ctcp() -> None:
    """Check CTCP run directories against their contracts.

    \b
    Example:
      runward ctcp check runs/42
    """


@ctcp.command()
@click.argument("directory", metavar="DIR", type=NamedPath(readable=False))
@click.option(
    "--only",
    metavar="LETTERS",
    shell_complete=_completed_letters,
    help="Check only these contracts, as in A,G (default: A to J).",
)
@click.option("--allow-missing", is_flag=True, help="Don't report files that do not exist.")
@click.option(
    "--tree",
    metavar="DIR",
    type=NamedPath(readable=False),
    help="A work tree to which the patch must apply ('git apply --check').",
)
@json_option("Print JSON: the result and its findings.")
def check(directory: str, only: str | None, allow_missing: bool, tree: str | None, as_json: bool) -> None:
    """Check a run directory against the CTCP contracts A to J.

    Exit code 0: PASS. 1: FAIL, at least one error. 2: no such contract. 3: no such directory.

    \b
    Example:
      runward ctcp check runs/42
      runward ctcp check runs/42 --only G,H --tree ~/src/project
    """
    letters = _letters(only)
    for place in (directory, tree):
        if place is not None and not os.path.isdir(place):
            fail(f"there is no directory {place}", NOT_FOUND)
    reports = _reports(directory, letters, _also(tree), allow_missing)
    findings = [each for report in reports.values() for each in report.findings()]
    failed = any(report.has_errors for report in reports.values())
    result = "FAIL" if failed else "PASS"
    if as_json:
        print_json({"result": result, "findings": [each._asdict() for each in findings]})
    else:
        for each in findings:
            print_text(_line(directory, each))
        print_text(f"{coloured('failed' if failed else 'passed', result)}: {_counted(findings)}")
    sys.exit(NOT_SO if failed else GOOD)


def _letters(only: str | None) -> list[str]:
    """The contracts to check, in their order; ends the program if one isn't known."""
    if only is None:
        return list(LETTERS)
    named = {each.strip().upper() for each in only.split(",")}
    unknown = sorted(named - set(LETTERS))
    if unknown:
        fail(f"there is no contract {unknown[0]!r}; write letters from A to J, as in A,G", WRONG_USAGE)
    return [letter for letter in LETTERS if letter in named]


def _also(tree: str | None) -> Mapping[str, Callable[[Documents, Report], None]]:
    if tree is None:
        return {}
    from runward.daemon.rundir.ctcp_run import check_applies

    place = os.path.abspath(tree)
    return {"H": lambda documents, report: check_applies(place, documents, report)}


def _reports(
    directory: str,
    letters: list[str],
    also: Mapping[str, Callable[[Documents, Report], None]],
    allow_missing: bool,
) -> dict[str, Report]:
    from runward.daemon.rundir.ctcp_run import NoGit, check_run
    from runward.daemon.rundir.opening import open_root

    try:
        root = open_root(directory)
        try:
            return check_run(root, letters, also, allow_missing=allow_missing)
        finally:
            os.close(root)
    except NoGit as error:
        fail(f"{error}; install git, or leave --tree out", WRONG_USAGE)
    except OSError as error:
        fail(f"{directory} can't be read: {error.strerror}; try again", TRY_AGAIN)


def _line(directory: str, finding: Finding) -> str:
    place = os.path.join(directory, finding.path)
    if finding.line is not None:
        place = f"{place}:{finding.line}"
    return f"{safe(place)}: {coloured(finding.severity)}: {finding.rule}: {safe(finding.message)}"


def _counted(findings: list[Finding]) -> str:
    errors = sum(1 for each in findings if each.severity == "error")
    return f"{counted(errors, 'error', 'errors')}, {counted(len(findings) - errors, 'warning', 'warnings')}"
