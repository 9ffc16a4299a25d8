"""`runward contract`: check any directory against a contract, without daemon or store."""

import os
import sys
import time

import click

from runward.config.contract import Contract, contract_to_json
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import complain, fail, note, print_json
from runward.handlers.model.files import RootFacts


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
@click.option(
    "--json", "as_json", is_flag=True, help="Print the verification as JSON, null without a contract."
)
@click.pass_context
def verify(context: click.Context, playbook: str | None, agent: str | None, root: str, as_json: bool) -> None:
    """Verify a directory against a contract.

    Exit code 0: passed, a warning (optional artifacts are missing) or no contract. 1: a required
    artifact or the directory is missing. 2: the contract is invalid. 3: no such playbook.

    \b
    Example:
      runward contract verify --playbook review --root out/
    """
    from runward.handlers.contracts.verify import verification_as_json
    from runward.handlers.contracts.verify import verify as hold_against

    held = _declared(context, playbook, agent)
    if held is None:
        if as_json:
            print_json(None)
        note("no contract is declared: nothing was verified")
        return
    facts = _facts(os.path.abspath(root), held)
    verification = hold_against(held, facts, time.time())
    said = verification_as_json(verification)
    for identifier, rule in verification.rules:
        if not rule.holds:
            place = rule.path if rule.line is None else f"{rule.path}:{rule.line}"
            note(f"{place}: {identifier}: {rule.rule}: {rule.reason}")
    if as_json:
        print_json(said)
    else:
        from runward.daemon.cli.session.show import panel

        click.echo("\n".join(panel(contract_to_json(held), said, _why(held, facts))))
    sys.exit(NOT_SO if verification.status == "failed" else GOOD)


def _declared(context: click.Context, playbook: str | None, agent: str | None) -> Contract | None:
    """The contract that playbook and agent declare; ends the program if they are invalid."""
    from runward.daemon.cli.play.declared import declared
    from runward.daemon.configuration.declared_files import NotFound

    if playbook is None and agent is None:
        fail("name the contract: --playbook NAME, --agent NAME, or both", WRONG_USAGE)
    try:
        found = declared(own_settings(context), playbook, agent)
    except NotFound as error:
        fail(str(error), NOT_FOUND)
    complain(found.problems)
    if not found.is_right:
        sys.exit(WRONG_USAGE)
    return found.contract


def _facts(directory: str, held: Contract) -> RootFacts:
    """What is at the contract's paths; ends the program if that can't be determined."""
    from runward.daemon.rundir.artifacts import contract_facts
    from runward.handlers.model.files import Unreadable

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
