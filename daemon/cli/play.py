"""`runward play`, playbooks, what they ask for and starting them; and `runward contract`, any directory against what they ask for."""

import os
import sys
import time
from typing import Final, TypeAlias

import click

from runward.config.contract import Contract, contract_to_json
from runward.config.json_value import JsonValue
from runward.config.problem import Problem
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import own_settings, pass_settings
from runward.daemon.cli.terminal.options import NamedPath, json_option, junit_option, listed, write_report
from runward.daemon.cli.terminal.output import (
    Columns,
    coloured,
    complain,
    fail,
    note,
    print_json,
    print_list,
    print_text,
    safe,
)
from runward.daemon.configuration.declared_files import (
    Declared,
    NotFound,
    declared,
    playbook_names,
)
from runward.handlers.model.files import RootFacts, Unreadable


@click.group(cls=Group)
def play() -> None:
    """Run playbooks, list and check them.

    \b
    Example:
      runward play check review
      runward play run review pr=12
    """


_Named: TypeAlias = tuple[str, Declared]
"""A playbook by its name, and what its file declares."""


def _playbook_state(row: _Named) -> str:
    name, declaration = row
    wrong = f"wrong: `runward play check {name}` says why"
    return coloured("ok") if declaration.is_right else coloured("failed", wrong)


_COLUMNS: Final[Columns[_Named]] = {
    "PLAYBOOK": lambda row: safe(row[0]),
    "AGENT": lambda row: safe((row[1].playbook and row[1].playbook.agent) or "-"),
    "EXPECTS": lambda row: "-" if row[1].contract is None else _counted(row[1].contract),
    "COMMAND": lambda row: safe(" ".join((row[1].playbook and row[1].playbook.command) or "-")),
    "STATE": _playbook_state,
}


@play.command("list")
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_playbooks(settings: Settings, as_json: bool) -> None:
    """List the playbooks of the settings, with what they expect.

    \b
    Example:
      runward play list
    """
    playbooks = [(name, declared(settings, name, None)) for name in playbook_names(settings)]
    nothing = f"no playbooks in {', '.join(settings.playbooks) or 'any directory'}"
    print_list(playbooks, _COLUMNS, as_json, value=_playbook_as_json, nothing=nothing)


def _playbook_as_json(row: _Named) -> JsonValue:
    name, declaration = row
    book = declaration.playbook
    return {
        "name": name,
        "command": list(book.command) if book is not None and book.command is not None else None,
        "takes": list(book.takes) if book is not None else [],
        "timeout": book.timeout if book is not None else None,
        "agent": book.agent if book is not None else None,
        **_as_json(declaration),
    }


@play.command()
@click.argument("playbook", metavar="NAME", shell_complete=completing.playbooks)
@click.argument("values", metavar="[KEY=VALUE]...", nargs=-1, shell_complete=completing.values)
@click.option("--wait", is_flag=True, help="Wait until it is over, and exit with its status.")
@click.option("-f", "--follow", is_flag=True, help="Like --wait, but also show its output and its journal.")
@json_option("Print JSON; with --follow one value a line.")
@pass_settings
def run(
    settings: Settings, playbook: str, values: tuple[str, ...], wait: bool, follow: bool, as_json: bool
) -> None:
    """Have the daemon start a playbook's command. Prints its session.

    The command starts in this directory.

    KEY=VALUE gives a text for {{ with.KEY }}, KEY:=JSON any other value. The command is started once, even if the
    daemon is down or is killed in the meantime. Ctrl-C ends only the waiting.

    Exit code with --wait: 0 completed, 1 failed, 124 timed out, 130 aborted, 143 cancelled; 2: refused.

    \b
    Example:
      runward play run review pr=12
      runward play run review pr=12 --follow
    """
    from runward.daemon.cli.play_run import run_and_end

    run_and_end(settings=settings, name=playbook, words=values, wait=wait, follow=follow, as_json=as_json)


@play.command()
@click.argument("playbook", metavar="NAME|FILE", shell_complete=completing.playbooks)
@click.option(
    "--agent",
    metavar="NAME|FILE",
    shell_complete=completing.agents,
    help="The agent whose defaults apply (default: the playbook's).",
)
@json_option()
@pass_settings
def check(settings: Settings, playbook: str, agent: str | None, as_json: bool) -> None:
    """Check a playbook, and show its contract with the agent's defaults.

    Exit code 0: valid. 2: invalid. 3: no such playbook or agent.

    \b
    Example:
      runward play check review --agent reviewer
    """
    try:
        declaration = declared(settings, playbook, agent)
    except NotFound as error:
        fail(str(error), NOT_FOUND)
    if as_json:
        print_json(_as_json(declaration))
    else:
        complain(declaration.problems)
        if declaration.is_right:
            print_text("\n".join(_findings(declaration)))
    if not declaration.is_right:
        sys.exit(WRONG_USAGE)


def _as_json(declaration: Declared) -> dict[str, JsonValue]:
    return {
        "contract": contract_to_json(declaration.contract) if declaration.contract is not None else None,
        "timeout": None if declaration.playbook is None else declaration.playbook.timeout,
        "problems": [_problem_as_json(problem) for problem in declaration.problems],
    }


def _problem_as_json(problem: Problem) -> JsonValue:
    message = f"{problem.message} ({problem.fix})" if problem.fix else problem.message
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": message,
        "severity": problem.severity,
    }


def _findings(declaration: Declared) -> list[str]:
    """What is valid about it, as ADR-0029 (section 9) shows it."""
    if declaration.contract is None:
        return ["→ no contract is declared: nothing will be verified"]
    overridden = _overridden(declaration)
    collisions = (
        f"→ the playbook replaces agent_profile defaults: {', '.join(overridden)}"
        if overridden
        else "→ no id collisions with agent_profile defaults"
    )
    return [f"→ contract resolved ({_counted(declaration.contract)})", "→ all paths relative-OK", collisions]


def _counted(contract: Contract) -> str:
    required = sum(entry.required for entry in contract.expected)
    total = len(contract.expected)
    return f"{total} expected: {required} required, {total - required} optional"


def _overridden(declaration: Declared) -> list[str]:
    """The ids that the playbook and the agent both declare: the playbook's count."""
    theirs = declaration.agent.artifacts or () if declaration.agent is not None else ()
    ours = declaration.playbook.artifacts or () if declaration.playbook is not None else ()
    return sorted({each.id for each in theirs} & {each.id for each in ours})


@click.group(cls=Group)
def contract() -> None:
    """Verify a directory against a contract: what a run must leave behind.

    \b
    Example:
      runward contract verify --playbook review --root out/
    """


@contract.command()
@click.option(
    "--playbook",
    metavar="NAME|FILE",
    shell_complete=completing.playbooks,
    help="The playbook whose artifacts are expected.",
)
@click.option(
    "--agent",
    metavar="NAME|FILE",
    shell_complete=completing.agents,
    help="The agent whose defaults apply (default: the playbook's).",
)
@click.option(
    "--root",
    required=True,
    type=NamedPath(readable=False),
    metavar="DIR",
    help="The directory that paths are relative to.",
)
@json_option("Print the verification as JSON, null without a contract.")
@junit_option
@click.pass_context
def verify(
    context: click.Context,
    playbook: str | None,
    agent: str | None,
    root: str,
    as_json: bool,
    junit: str | None,
) -> None:
    """Verify a directory against a contract.

    Exit code 0: passed, a warning (optional artifacts are missing) or no contract. 1: a required
    artifact or the directory is missing. 2: the contract is invalid. 3: no such playbook.
    75: the directory can't be read, or the report can't be written.

    \b
    Example:
      runward contract verify --playbook review --root out/
    """
    from runward.handlers.contracts.verify import rules_as_json, verification_as_json
    from runward.handlers.contracts.verify import verify as hold_against

    name, began = f"contract verify {root}", time.time()
    held = _declared(context, playbook, agent)
    if held is None:
        if as_json:
            print_json(None)
        note("no contract is declared: nothing was verified")
        if junit is not None:
            write_report(junit, name, [], began, 0.0)
        return
    facts = _facts(os.path.abspath(root), held)
    verification = hold_against(held, facts, time.time())
    printed = verification_as_json(verification)
    for identifier, rule in verification.rules:
        if not rule.holds:
            place = rule.path if rule.line is None else f"{rule.path}:{rule.line}"
            note(f"{place}: {identifier}: {rule.rule}: {rule.reason}")
    if as_json:
        print_json(printed)
    else:
        from runward.daemon.cli.session.show import panel

        print_text("\n".join(panel(contract_to_json(held), printed, _why(held, facts))))
    if junit is not None:
        from runward.daemon.views.checks import checks_of

        rules = rules_as_json(verification)
        checks = checks_of(contract_to_json(held), printed, rules, _why(held, facts))
        write_report(junit, name, checks, began, time.time() - began)
    sys.exit(NOT_SO if verification.status == "failed" else GOOD)


def _declared(context: click.Context, playbook: str | None, agent: str | None) -> Contract | None:
    """The contract that playbook and agent declare; ends the program if they are invalid."""
    if playbook is None and agent is None:
        fail("name the contract: --playbook NAME, --agent NAME, or both", WRONG_USAGE)
    try:
        declaration = declared(own_settings(context), playbook, agent)
    except NotFound as error:
        fail(str(error), NOT_FOUND)
    complain(declaration.problems)
    if not declaration.is_right:
        sys.exit(WRONG_USAGE)
    return declaration.contract


def _facts(directory: str, held: Contract) -> RootFacts:
    """What is at the contract's paths; ends the program if that can't be determined."""
    from runward.daemon.rundir.artifacts import contract_facts

    facts = contract_facts(held, directory, "", directory, 0.0)
    if isinstance(facts, Unreadable):
        fail(f"{directory} can't be read: {facts.why}; try again", TRY_AGAIN)
    if not facts.exists:
        note(f"there is no directory {directory} that could be read")
    return facts


def _why(held: Contract, facts: RootFacts) -> dict[str, str]:
    """Why the file at a path doesn't count as delivered."""
    from runward.handlers.contracts.verify import described

    return described(held, facts)
