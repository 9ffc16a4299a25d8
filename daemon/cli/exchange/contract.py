"""`runward exchange contract`: what a contract says of an action, without the action."""

import sys
import time
from pathlib import Path

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exchange.acting import json_of, text_of
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import own_settings, settings_in_force
from runward.daemon.cli.terminal.options import json_option
from runward.daemon.cli.terminal.output import fail, print_json, print_text, safe, say
from runward.daemon.store.reading import STORE
from runward.handlers.exchange.accounts import Accounts
from runward.handlers.exchange.contracts import (
    ACTIONS,
    CONTRACT,
    GENESIS_CONTRACTS,
    Verdict,
    context_of,
    evaluated,
    run_contract,
)
from runward.handlers.exchange.genesis import genesis_artifact
from runward.handlers.exchange.reading import ReadTooMuch
from runward.handlers.model.asking import Asking
from runward.handlers.model.exchange import SharedArtifact


@click.group(cls=Group)
def contract() -> None:
    """Check contracts that decide who may use an artifact. For what a run must deliver, see `runward contract`.

    \b
    Example:
      runward exchange contract check freeware --caller ann --action read --target counter
    """


@contract.command()
@click.argument("contract_or_file", metavar="ID|FILE", shell_complete=completing.shared_artifacts)
@click.option(
    "--caller",
    required=True,
    metavar="P",
    shell_complete=completing.principals,
    help="The principal who would act.",
)
@click.option("--action", required=True, type=click.Choice(ACTIONS), help="The action.")
@click.option(
    "--target",
    required=True,
    metavar="ID",
    shell_complete=completing.shared_artifacts,
    help="The artifact that it would act on.",
)
@click.option(
    "--context",
    "context_json",
    metavar="JSON",
    help="A JSON object to use as the context instead of the target's.",
)
@json_option()
@click.pass_context
def check(
    context: click.Context,
    contract_or_file: str,
    caller: str,
    action: str,
    target: str,
    context_json: str | None,
    as_json: bool,
) -> None:
    """Show what a contract would decide about an action.

    A contract is an artifact, a genesis contract, or a file with code. Nothing is changed.

    Exit code 0: it allows the action. 1: it doesn't.

    \b
    Example:
      runward exchange contract check gate.py --caller ann --action read --target counter --context '{"now": 0}'
      runward exchange contract check private --caller ann --action write --target counter
    """
    from runward.daemon.host.acting_with_code import RunningCode, empty_store, snapshot

    given = None if context_json is None else json_of(context_json, "the context")
    if given is not None and not isinstance(given, dict):
        fail("the context must be a JSON object", WRONG_USAGE)
    settings = settings_in_force(context)
    # Those that are written down, not those of the daemon: the sandbox belongs to this process.
    own = own_settings(context)
    accounts = Accounts("check", time.time(), "check")
    state = Path(settings.state_dir)
    with snapshot(state) if (state / STORE).exists() else empty_store() as store:
        code = RunningCode(accounts, store, own.exchange, own.exchange.executor)
        try:
            verdict = code.drive(
                _asked(
                    accounts=accounts,
                    contract_or_file=contract_or_file,
                    caller=caller,
                    action=action,
                    target=target,
                    given=given,
                )
            )
        except ReadTooMuch as error:
            verdict = Verdict(False, str(error))
    if code.fix is not None:
        say(f"this machine has no sandbox, so no contract can be evaluated; {code.fix}")
    if as_json:
        print_json({"allowed": verdict.allowed, "reason": verdict.reason, "cost": verdict.cost})
    else:
        cost = f" (cost: {verdict.cost})" if verdict.cost else ""
        print_text(f"{'allowed' if verdict.allowed else 'not allowed'}: {safe(verdict.reason)}{cost}")
    sys.exit(GOOD if verdict.allowed else NOT_SO)


def _asked(
    accounts: Accounts,
    contract_or_file: str,
    caller: str,
    action: str,
    target: str,
    given: dict[str, JsonValue] | None,
) -> Asking[Verdict]:
    named = genesis_artifact(target) or (yield from accounts.artifact(target))
    if named is None and given is None:
        fail(f"there is no artifact {target!r}: add --context to check without it", NOT_FOUND)
    artifact = named or SharedArtifact(
        id=target, type="generic", content="", owner_id="", created_at=accounts.at, updated_at=accounts.at
    )
    name = f"{CONTRACT}{contract_or_file}" if contract_or_file in GENESIS_CONTRACTS else contract_or_file
    if name.startswith(CONTRACT) or (yield from accounts.artifact(name)) is not None:
        return (
            yield from evaluated(
                accounts=accounts,
                contract=name,
                caller=caller,
                action=action,
                target=artifact,
                frame=None,
                context=given,
            )
        )
    if not Path(name).is_file():
        fail(f"there is no contract and no file {contract_or_file!r}", NOT_FOUND)
    known = context_of(accounts, artifact, None) if given is None else given
    return (
        yield from run_contract(
            accounts=accounts,
            contract=name,
            code=text_of(name),
            caller=caller,
            action=action,
            target=target,
            context=known,
        )
    )
