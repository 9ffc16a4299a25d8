"""All commands, by name: each has its own module, which is imported when the command is called."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from runward.daemon import __version__
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.shell.paths import LEADS_NOWHERE, NamedPath, leads_nowhere
from runward.daemon.cli.terminal.output import safe, wants_colour

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: Final = {
    "run": ("run.commands", "Launch a command as a recorded session."),
    "session": ("session.commands", "Sessions: what ran, and what became of it."),
    "why": ("why.commands", "Why something is as it is, the first cause first."),
    "status": ("status.commands", "Whether the daemon is up, and what it has to do."),
    "doctor": ("daemon.doctor", "Whether this installation can do what it is for."),
    "queue": ("queue.commands", "Jobs: what the daemon still owes."),
    "log": ("log.commands", "The daemon's structured log."),
    "inspect": ("inspect.commands", "What a run directory says, without daemon or store."),
    "contract": ("play.contract", "Hold a directory against a contract."),
    "ctcp": ("inspect.ctcp", "CTCP run directories: whether they hold to their contracts."),
    "play": ("play.commands", "Playbooks: what they ask for."),
    "chain": ("chain.commands", "Chains: what follows when something happened."),
    "receipt": ("bundle.receipt", "Receipts: the proof of what a session did."),
    "replay": ("bundle.replay", "Replays: what a session did, event by event."),
    "training": ("session.training", "Training data: the calls of sessions, with labels."),
    "invocation": ("chain.invocation", "Invocations: what was ordered, by chains and people."),
    "show": ("session.show", "Shows: their plays, and what their gates decided."),
    "artifact": ("session.artifact", "Artifacts: the outcomes that sessions produced."),
    "outcome": ("session.outcome", "Outcomes: whether a file holds a right one."),
    "exchange": ("exchange.commands", "The exchange: what agents share, and their code."),
    "mcp": ("mcp.commands", "Serve agents' tools by the Model Context Protocol."),
    "event": ("chain.event", "Events: what happened, for chains to follow."),
    "schedule": ("chain.schedule", "Schedules: when chains are due."),
    "notify": ("daemon.notify", "Notices: what people outside are told."),
    "root": ("settings.root", "Roots: the directories that the daemon watches."),
    "hook": ("settings.hook", "Agents' hooks: what they tell the daemon."),
    "config": ("settings.config", "The settings in force."),
    "schema": ("settings.schema", "JSON Schemas of the files that people write."),
    "prune": ("store.prune", "Remove the record of sessions that ended long ago."),
    "daemon": ("daemon.commands", "Run the daemon in the foreground, as systemd does."),
    "backup": ("store.backup", "A consistent copy of the store, while the daemon runs."),
    "restore": ("store.restore", "Put a backup in the store's place."),
    "completion": ("shell.completion", "The script for completion in your shell."),
    "man": ("shell.man", "The manual page."),
    "help": ("shell.help", "The help of a command."),
}
"""Command name -> (module, one line of help). The modules have an object of the command's name."""


class LateGroup(Group):
    """A group whose commands are imported only when they are called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        module = import_module(f"runward.daemon.cli.{entry[0]}")
        command = getattr(module, name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from runward.daemon.cli.shell.completing import files

    return files(context, parameter, incomplete)


@click.group(cls=LateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="runward", message="%(prog)s %(version)s")
@click.option(
    "--config",
    metavar="FILE",
    type=NamedPath(),
    shell_complete=_files,
    help="The settings file (default: runward.toml in the usual places).",
)
@click.option("--debug", is_flag=True, help="Show tracebacks, and log more.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="When to colour; auto also obeys NO_COLOR.",
)
@click.pass_context
def runward(context: click.Context, config: str | None, debug: bool, color: str) -> None:
    """Runward knows whether an agent run really delivered.

    \b
    Example:
      runward daemon &
      runward run --playbook review -- python3 review.py
      runward session list
    """
    named = os.environ.get("RUNWARD_CONFIG")
    if config is None and named and leads_nowhere(named):
        raise click.UsageError(f"RUNWARD_CONFIG={safe(named)}: {LEADS_NOWHERE}")
    context.obj = {"config": config, "debug": debug}
    context.color = wants_colour(color)
