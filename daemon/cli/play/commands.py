"""`runward play`: playbooks, what they ask for, whether they are valid, and starting their commands."""

import sys

import click

from runward.config.contract import Contract, contract_to_json
from runward.config.json_value import JsonValue
from runward.config.problem import Problem
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.play.declared import Declared, declared
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.terminal.output import coloured, complain, fail, print_json, print_table, safe
from runward.daemon.configuration.declared_files import NotFound, playbook_names


@click.group(cls=Group)
def play() -> None:
    """Run playbooks, list and check them.

    \b
    Example:
      runward play check review
      runward play run review pr=12
    """


@play.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_playbooks(context: click.Context, as_json: bool) -> None:
    """List the playbooks of the settings, with what they expect.

    \b
    Example:
      runward play list
    """
    settings = settings_in_force(context)
    found = [(name, declared(settings, name, None)) for name in playbook_names(settings)]
    if as_json:
        print_json([_playbook_as_json(name, each) for name, each in found])
        return
    if not found:
        click.echo(f"no playbooks in {', '.join(settings.playbooks) or 'any directory'}")
        return
    print_table(
        ("PLAYBOOK", "AGENT", "EXPECTS", "COMMAND", "STATE"), [_row(name, each) for name, each in found]
    )


def _row(name: str, found: Declared) -> tuple[str, ...]:
    book = found.playbook
    wrong = f"wrong: `runward play check {name}` says why"
    return (
        safe(name),
        safe(book.agent) if book is not None and book.agent else "-",
        _counted(found.contract) if found.contract is not None else "-",
        safe(" ".join(book.command)) if book is not None and book.command else "-",
        coloured("ok") if found.is_right else coloured("failed", wrong),
    )


def _playbook_as_json(name: str, found: Declared) -> JsonValue:
    book = found.playbook
    return {
        "name": name,
        "command": list(book.command) if book is not None and book.command is not None else None,
        "takes": list(book.takes) if book is not None else [],
        "timeout": book.timeout if book is not None else None,
        "agent": book.agent if book is not None else None,
        **_as_json(found),
    }


@play.command()
@click.argument("playbook", metavar="NAME", shell_complete=completing.playbooks)
@click.argument("values", metavar="[KEY=VALUE]...", nargs=-1, shell_complete=completing.values)
@click.option("--wait", is_flag=True, help="Wait until it is over, and exit with its status.")
@click.option("-f", "--follow", is_flag=True, help="Like --wait, but also show its output and its journal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --follow one value a line.")
@click.pass_context
def run(
    context: click.Context, playbook: str, values: tuple[str, ...], wait: bool, follow: bool, as_json: bool
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
    from runward.daemon.cli.play.run import run_and_end

    run_and_end(settings_in_force(context), playbook, values, wait, follow, as_json)


@play.command()
@click.argument("playbook", metavar="NAME|FILE", shell_complete=completing.playbooks)
@click.option(
    "--agent",
    metavar="NAME|FILE",
    shell_complete=completing.agents,
    help="The agent whose defaults apply (default: the playbook's).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(context: click.Context, playbook: str, agent: str | None, as_json: bool) -> None:
    """Check a playbook, and show its contract with the agent's defaults.

    Exit code 0: valid. 2: invalid. 3: no such playbook or agent.

    \b
    Example:
      runward play check review --agent reviewer
    """
    try:
        found = declared(settings_in_force(context), playbook, agent)
    except NotFound as error:
        fail(str(error), NOT_FOUND)
    if as_json:
        print_json(_as_json(found))
    else:
        complain(found.problems)
        if found.is_right:
            click.echo("\n".join(_findings(found)))
    if not found.is_right:
        sys.exit(WRONG_USAGE)


def _as_json(found: Declared) -> dict[str, JsonValue]:
    return {
        "contract": contract_to_json(found.contract) if found.contract is not None else None,
        "timeout": None if found.playbook is None else found.playbook.timeout,
        "problems": [_problem_as_json(problem) for problem in found.problems],
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


def _findings(found: Declared) -> list[str]:
    """What is valid about it, as ADR-0029 (section 9) shows it."""
    if found.contract is None:
        return ["→ no contract is declared: nothing will be verified"]
    overridden = _overridden(found)
    collisions = (
        f"→ the playbook replaces agent_profile defaults: {', '.join(overridden)}"
        if overridden
        else "→ no id collisions with agent_profile defaults"
    )
    return [f"→ contract resolved ({_counted(found.contract)})", "→ all paths relative-OK", collisions]


def _counted(contract: Contract) -> str:
    required = sum(entry.required for entry in contract.expected)
    total = len(contract.expected)
    return f"{total} expected: {required} required, {total - required} optional"


def _overridden(found: Declared) -> list[str]:
    """The ids that the playbook and the agent both declare: the playbook's count."""
    theirs = found.agent.artifact_defaults or () if found.agent is not None else ()
    ours = found.playbook.artifacts or () if found.playbook is not None else ()
    return sorted({each.id for each in theirs} & {each.id for each in ours})
