"""`runward mcp`: the server of the Model Context Protocol."""

import os
from collections.abc import Callable
from typing import Final

import click

from runward.config.intent import why_no_id
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.terminal.output import fail
from runward.daemon.configuration.extras import NO_LIBRARY, has_library
from runward.daemon.processes.client_gone import end_with_client

_RUN: Final = "RUNWARD_RUN_DIR"


@click.command()
@click.option(
    "--as",
    "principal",
    metavar="P",
    shell_complete=completing.principals,
    help="The principal who acts in the exchange (default inside a run: its agent).",
)
@click.pass_context
def mcp(context: click.Context, principal: str | None) -> None:
    """Serve tools for agents (the exchange, the sessions) over the Model Context Protocol on stdin and stdout.

    Inside a run (RUNWARD_RUN_DIR) it acts as the run's agent, by the run's intents.jsonl and results.jsonl. Outside, it
    acts as P through the inbox; without --as it only reads. It exits within a second after its client.

    \b
    Example:
      runward mcp --as writer
    """
    if principal is not None and (why := why_no_id(principal)) is not None:
        fail(f"--as: a principal's name {why}", WRONG_USAGE)
    run = os.environ.get(_RUN) or None
    if run is not None and not os.path.isdir(run):
        fail(f"{_RUN}={run} is not a directory", NOT_FOUND)
    if not has_library():
        fail(NO_LIBRARY, WRONG_USAGE)
    end_with_client()  # before the library is imported, which takes longer than a client may wait
    _serve(settings_in_force(context), None if run is None else os.path.abspath(run), principal)


def _serve(settings: Settings, run: str | None, principal: str | None) -> None:
    from runward.daemon.cli.exchange.acting import Acting
    from runward.daemon.cli.mcp.serving import instructions, serve
    from runward.daemon.cli.mcp.tools import (
        ByInbox,
        ByRun,
        Sender,
        action_tools,
        agent_of_run,
        reading_tools,
        tools_about_sessions,
        tools_of_run,
    )

    sender: Sender | None = None
    who_acts: Callable[[], str | None] | None = None
    if run is not None:
        sender, who_acts = ByRun(run, principal), lambda: agent_of_run(run)
    elif principal is not None:
        Acting(settings).check(principal)
        sender, who_acts = ByInbox(settings, principal), lambda: principal
    tools = [
        *([] if sender is None else action_tools(sender)),
        *reading_tools(settings, who_acts),
        *tools_about_sessions(settings, run),
        *([] if run is None else tools_of_run(run)),
    ]
    serve(tools, instructions(_who(run, principal)))


def _who(run: str | None, principal: str | None) -> str:
    if run is not None:
        return "You act as the agent of this run."
    if principal is not None:
        return f"You act as the principal {principal}."
    return "You can only read: the server was started without --as."
