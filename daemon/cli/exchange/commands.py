"""`runward exchange`: what agents share, and how their code runs."""

import sys

import click

from runward.config.executor import LONGEST_TIMEOUT_S
from runward.daemon.cli.exchange.arguments import argument_of, text_of
from runward.daemon.cli.exchange.artifact import artifact
from runward.daemon.cli.exchange.contract import contract
from runward.daemon.cli.exchange.intents import invoke, submit
from runward.daemon.cli.exchange.principal import mint, principal
from runward.daemon.cli.exchange.records import ledger, log
from runward.daemon.cli.exchange.token import token
from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import print_json, print_json_line, safe, to_stderr
from runward.daemon.cli.terminal.times import Length


@click.group(cls=Group)
def exchange() -> None:
    """Share artifacts between agents, pay for them, and run their code.

    \b
    Example:
      runward exchange execute try.py
    """


@exchange.command("execute", context_settings={"ignore_unknown_options": True})
@click.argument("file", type=NamedPath(readable=False))
@click.argument("arguments", nargs=-1, metavar="[ARG]…")
@click.option(
    "--timeout",
    metavar="DURATION",
    type=Length(LONGEST_TIMEOUT_S),
    help="The most time that it may take (default: from the settings).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in one line.")
@click.pass_context
def execute_file(
    context: click.Context, file: str, arguments: tuple[str, ...], timeout: float | None, as_json: bool
) -> None:
    """Try code in the sandbox: run(ARG…) of FILE.

    It runs without daemon, store or identity.

    What it prints goes to stderr.

    An ARG is text; `:=JSON` is JSON. Exit code 1: the code failed, or this machine can't provide the sandbox.

    \b
    Example:
      runward exchange execute try.py 1 2
      runward exchange execute try.py ':={"depth": 3}' --timeout 1s
    """
    from runward.daemon.sandbox.execution import execution_to_json
    from runward.daemon.sandbox.workers import Job, execute

    executor = own_settings(context).executor
    if timeout is not None:
        executor = executor._replace(timeout=timeout)
    arguments_of_run = [argument_of(each) for each in arguments]
    execution = execute(Job(text_of(file), arguments_of_run, is_shown=True), executor)
    for line in execution.printed.splitlines():
        to_stderr(safe(line))
    said = execution_to_json(execution)
    print_json_line(said) if as_json else print_json(said)
    if execution.fix is not None:
        to_stderr(f"runward: {execution.error}; {execution.fix}")
    sys.exit(GOOD if execution.code is None else NOT_SO)


exchange.add_command(artifact)
exchange.add_command(contract)
exchange.add_command(principal)
exchange.add_command(mint)
exchange.add_command(invoke)
exchange.add_command(submit)
exchange.add_command(ledger)
exchange.add_command(log)
exchange.add_command(token)
