"""`runward doctor`: whether this installation works, proved by trying it; with `--rebuild`, what the journals say, compared with the store."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted, nearest
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.context import read_settings_of
from runward.daemon.cli.terminal.live import progress, write_in_place
from runward.daemon.cli.terminal.options import json_option
from runward.daemon.cli.terminal.output import (
    at_home,
    coloured,
    fail,
    print_json,
    print_text,
    room,
    safe,
    terminal_size,
)
from runward.daemon.cli.terminal.tables import cut_to, flowed
from runward.daemon.configuration.complaints import complaints_about
from runward.daemon.configuration.settings import home_of
from runward.daemon.store.reading import exists

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from runward.daemon.doctor.checks import Check
    from runward.daemon.doctor.findings import Finding, Installation
    from runward.daemon.doctor.state import Difference, Rebuilt


_WORD: Final = 7
"""The width of the longest result."""


class CheckName(click.ParamType[str]):
    """The name of a check; the checks themselves are imported only if one is named."""

    name = "check"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from runward.daemon.doctor.checks import CHECKS

        return [CompletionItem(check.name) for check in CHECKS if check.name.startswith(incomplete)]

    def convert(self, value: str, parameter: click.Parameter | None, context: click.Context | None) -> str:
        from runward.daemon.doctor.checks import CHECKS

        names = [check.name for check in CHECKS]
        if value not in names:
            guess = nearest(value, names)
            fix = f"did you mean {guess!r}?" if guess else f"there are {', '.join(names)}"
            self.fail(f"no such check {value!r}; {fix}", parameter, context)
        return value


@click.command()
@click.option(
    "--only", type=CheckName(), multiple=True, help="Run only this check; may be given several times."
)
@click.option("--rebuild", is_flag=True, help="Instead, compare the store with the journals of all sessions.")
@json_option()
@click.pass_context
def doctor(context: click.Context, only: tuple[str, ...], rebuild: bool, as_json: bool) -> None:
    """Check whether this installation works.

    Each check does what the daemon does, in a scratch directory, and says what it found and how to fix it. It works
    with or without a running daemon, and with invalid settings. Exit code 1: something failed, or with --rebuild:
    something differs.

    \b
    Example:
      runward doctor
      runward doctor --only canary --only unit
      runward doctor --rebuild
    """
    if rebuild:
        if only:
            raise click.UsageError("--rebuild runs no checks: leave out --only")

        sys.exit(print_rebuilt(_installation(context.find_root().obj["config"]).settings.state_dir, as_json))
    from runward.daemon.doctor.checks import CHECKS, carry_out

    installation = _installation(context.find_root().obj["config"])
    results: list[tuple[Check, Finding]] = []
    for check in CHECKS:
        if only and check.name not in only:
            continue
        with _telling(check):
            findings = carry_out(check, installation)
        results += [(check, finding) for finding in findings]
        if not as_json:
            click.echo("".join(f"{line}\n" for each in findings for line in _lines(check, each)), nl=False)
    failed = sum(finding.result == "failed" for _, finding in results)
    if as_json:
        print_json(_as_json(results, failed))
    else:
        print_text(_summary(failed, sum(finding.result == "warning" for _, finding in results)))
    sys.exit(NOT_SO if failed else GOOD)


def _installation(config: str | None) -> "Installation":
    """What is examined: the installation of the settings in force, or of none if they are broken."""
    from runward.config.settings_layers import read_settings
    from runward.daemon.doctor.findings import Installation

    parsed = read_settings_of(config)
    problems = tuple(each.problem for each in complaints_about(parsed))
    settings = parsed.value
    if settings is None:
        # The variables may be what is wrong with the settings: what is examined then is an installation without them.
        unset = {name: value for name, value in os.environ.items() if not name.startswith("RUNWARD_")}
        home = home_of(os.environ)
        settings = read_settings((), unset, home=home, working_directory=home).value
        assert settings is not None, "the defaults are valid"
    return Installation(settings, parsed.value is None, problems, dict(os.environ))


@contextmanager
def _telling(check: "Check") -> Iterator[None]:
    """Say on a terminal what is being done, while it is."""
    if not sys.stderr.isatty():
        yield
        return
    doing = cut_to(f"{check.name}: {check.doing} ...", terminal_size(sys.stderr).columns - 1, "…")
    write_in_place(doing)
    try:
        yield
    finally:
        write_in_place("")


def _lines(check: "Check", finding: "Finding") -> Iterator[str]:
    """A finding as lines that fit the terminal: the result, the check, what was found, the fix below it."""
    word = coloured(finding.result, finding.result.ljust(_WORD))
    indent = " " * (_WORD + 2)
    columns = room()
    yield from flowed(at_home(f"{check.name}: {safe(finding.message)}"), f"{word}  ", indent, columns)
    if finding.fix is not None and finding.result != "ok":
        yield from flowed(at_home(safe(finding.fix)), f"{indent}-> ", f"{indent}   ", columns)


def _summary(failed: int, warnings: int) -> str:
    summary = f"{failed} failed, {counted(warnings, 'warning', 'warnings')}"
    if failed:
        return coloured("failed", f"not well: {summary}")
    return coloured("warning", f"it works: {summary}") if warnings else coloured("ok", "all is well")


def _as_json(findings: "list[tuple[Check, Finding]]", failed: int) -> JsonValue:
    return {
        "well": not failed,
        "checks": [
            {"name": check.name, "result": finding.result, "found": finding.message, "fix": finding.fix}
            for check, finding in findings
        ],
    }


_SHOWN = 20
"""Differences that people are shown."""


def print_rebuilt(state: str, as_json: bool) -> int:
    """Compare and print; returns the exit code."""
    from runward.daemon.doctor.state import rebuild

    if not exists(state):
        fail(f"no daemon has run in {state} yet: there is no store", NOT_FOUND)
    with progress() as shown:
        rebuilt = rebuild(state, shown)
    if as_json:
        print_json(rebuilt.as_json())
    else:
        for line in _rebuilt_lines(rebuilt):
            print_text(line)
    return GOOD if rebuilt.same else NOT_SO


def _rebuilt_lines(rebuilt: "Rebuilt") -> list[str]:
    lines = [_difference_line(each) for each in rebuilt.differences[:_SHOWN]]
    differing = len(rebuilt.differences) + rebuilt.further
    if differing > _SHOWN:
        lines.append(f"{differing - _SHOWN} more differences (--json lists them)")
    word = coloured("ok", "the same") if rebuilt.same else coloured("failed", "not the same")
    of = f"{rebuilt.compared} of {counted(rebuilt.sessions, 'session', 'sessions')}"
    lines.append(f"{word}: the store agrees with the journals of {of}")
    if not rebuilt.same:
        lines[-1] = f"{word}: {counted(differing, 'field differs', 'fields differ')}, {of} compared"
    if rebuilt.not_compared:
        fields = counted(rebuilt.not_compared, "field", "fields")
        lines.append(f"not compared: {fields} that lines of earlier versions lack")
    for why, count in rebuilt.without_journal.items():
        lines.append(f"not compared: {counted(count, 'session', 'sessions')}: {safe(why)}")
    return lines


def _difference_line(each: "Difference") -> str:
    live, folded = (_cut(json.dumps(value, ensure_ascii=False)) for value in (each.live, each.folded))
    return safe(f"{each.session}: {each.field}: the store says {live}, the journal {folded}")


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"
