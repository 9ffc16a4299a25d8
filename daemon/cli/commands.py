"""All commands, by name: each has its own module, which is imported when the command is called."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final

import click

from runward.config.problem import nearest, quoted
from runward.daemon import __version__
from runward.daemon.cli.terminal.options import LEADS_NOWHERE, NamedPath, leads_nowhere, no_pager_option
from runward.daemon.cli.terminal.output import print_lines, safe, wants_colour


class Group(click.Group):
    """A group whose refusal of an unknown name says which one was probably meant."""

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        # While a shell completes the line, a name that is half written is not a mistake.
        if not name.startswith("-") and not context.resilient_parsing:
            known = self.list_commands(context)
            if name not in known:
                raise click.UsageError(
                    f"no such command {quoted(name)}; {self.meant_by(name, known)}", context
                )
        return super().resolve_command(context, args)

    def meant_by(self, name: str, known: list[str]) -> str:
        """What somebody who wrote this name should write."""
        guess = nearest(name, known)
        return f"did you mean {guess!r}?" if guess else f"there are {', '.join(known)}"


_MEANT: Final = {
    "list": "session list",
    "ls": "session list",
    "ps": "session list",
    "logs": "session logs",
    "approve": "chain approve",
    "deny": "chain deny",
    "stop": "session cancel",
    "kill": "session cancel",
    "cancel": "session cancel",
    "cost": "usage",
    "setup": "init",
}
"""What other programs call it: the name, and ours."""


COMMANDS: Final = {
    "init": ("init.commands", "Set Runward up, or take that back."),
    "run": ("run", "Launch a command as a recorded session."),
    "session": ("session.commands", "Show, follow, cancel, verify and export sessions."),
    "top": ("top.commands", "Show sessions live, on the whole screen."),
    "usage": ("usage", "Show tokens and what they cost."),
    "why": ("why", "Explain why something happened, or did not."),
    "status": ("status", "Show whether the daemon runs, and what needs you."),
    "metrics": ("metrics", "Print figures for Prometheus."),
    "studio": ("studio", "Show and control runs in a browser."),
    "doctor": ("doctor", "Check whether this installation works."),
    "queue": ("queue", "Show the daemon's open jobs; retry or discard held ones."),
    "log": ("log", "Show the daemon's log."),
    "inspect": ("inspect", "Read a run directory without daemon or store."),
    "contract": ("play", "Verify a directory against a contract."),
    "ctcp": ("ctcp", "Check CTCP run directories against their contracts."),
    "play": ("play", "Run playbooks, list and check them."),
    "chain": ("chain.commands", "Define, fire and follow chains of runs."),
    "receipt": ("receipt", "Verify, sign and export receipts of sessions."),
    "replay": ("replay", "Show, check and convert replays of sessions."),
    "training": ("session.calls", "Export the calls of sessions as training data."),
    "invocation": ("invocation", "Show invocations: what chains and people have run."),
    "show": ("show", "List shows, their plays and gate verdicts."),
    "artifact": ("session.artifact", "List and add outcomes of sessions."),
    "outcome": ("session.artifact", "Check whether a file is a valid outcome."),
    "exchange": ("exchange.commands", "Share artifacts between agents, and run their code."),
    "mcp": ("mcp.commands", "Serve tools for agents over the Model Context Protocol."),
    "event": ("event", "Report events that chains react to."),
    "schedule": ("schedule", "Show when chains are due."),
    "notify": ("notify", "Show, test and retry notices to people."),
    "root": ("root", "Show the directories that the daemon watches."),
    "hook": ("hook", "Install the hooks of agents."),
    "fleet": ("fleet.commands", "Have several hosts report to one database, and list them."),
    "config": ("config", "Show the settings in force."),
    "schema": ("config", "Print the JSON Schema of a file that people write."),
    "prune": ("prune", "Remove the record of sessions that ended long ago."),
    "daemon": ("daemon", "Run the daemon in the foreground, as systemd does."),
    "backup": ("backup", "Copy the store, even while the daemon runs."),
    "restore": ("backup", "Replace the store with a backup."),
    "completion": ("commands", "Print the completion script for your shell."),
    "man": ("shell.man", "Show the manual page."),
    "help": ("commands", "Show the help of a command."),
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

    def meant_by(self, name: str, known: list[str]) -> str:
        """Also what other programs call it, and the groups that have a command of this name."""
        if name in _MEANT:
            return f"did you mean {_MEANT[name]!r}?"
        groups = self._groups_with(name)
        if groups:
            return f"did you mean {' or '.join(repr(f'{group} {name}') for group in groups)}?"
        guess = nearest(name, [*known, *_MEANT])
        return (
            f"did you mean {_MEANT.get(guess, guess)!r}?"
            if guess is not None
            else "`runward help --all` lists them"
        )

    def _groups_with(self, name: str) -> list[str]:
        """The commands that have one of this name."""
        context = click.Context(self)
        inner = {each: self.get_command(context, each) for each in self.list_commands(context)}
        return [
            each
            for each, command in inner.items()
            if isinstance(command, click.Group) and name in command.list_commands(context)
        ]

    def get_help(self, context: click.Context) -> str:
        """In groups on a terminal; a program gets the list."""
        if not sys.stdout.isatty():
            return self.whole_help(context)
        from runward.daemon.cli.shell.overview import overview

        return overview()

    def whole_help(self, context: click.Context) -> str:
        """Every command and option."""
        return super().get_help(context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LateGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="runward", message="%(prog)s %(version)s")
@click.option(
    "--config",
    metavar="FILE",
    type=NamedPath(),
    help="The settings file (default: runward.toml in the usual places).",
)
@click.option("--debug", is_flag=True, help="Show tracebacks, and log more.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="When to use colour; auto also obeys NO_COLOR.",
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
    # click has checked --config. The variable is read later, when a relative path would only be called missing.
    named = os.environ.get("RUNWARD_CONFIG")
    if config is None and named and leads_nowhere(named):
        raise click.UsageError(f"RUNWARD_CONFIG={safe(named)}: {LEADS_NOWHERE}")
    context.obj = {"config": config, "debug": debug}
    context.color = wants_colour(color)
    if context.invoked_subcommand is None:
        _alone(context, has_options=config is not None or debug or color != "auto")


def _alone(context: click.Context, *, has_options: bool) -> None:
    """Without a command a person gets the first screen, and a program the help, as an error."""
    if sys.stdout.isatty():
        from runward.daemon.cli.home import show_home
        from runward.daemon.cli.shell.context import settings_and_complaints

        show_home(*settings_and_complaints(context))
    if has_options:
        raise click.UsageError("Missing command.", context)
    raise click.exceptions.NoArgsIsHelpError(context)


@click.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.option("--all", "is_whole", is_flag=True, help="On a terminal, list every command, not the groups.")
@no_pager_option
@click.pass_context
def help(context: click.Context, words: tuple[str, ...], is_whole: bool) -> None:  # noqa: A001 # the command's name
    """Show the help of a command, as --help does.

    \b
    Example:
      runward help session list
    """
    command, at = context.find_root().command, context.find_root()
    for word in words:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"{at.command_path} has no commands", at)
        name, subcommand, _ = command.resolve_command(at, [word])
        assert subcommand is not None, "an unknown name is refused before"
        command, at = subcommand, click.Context(subcommand, info_name=name, parent=at)
    whole = command.whole_help if is_whole and isinstance(command, LateGroup) else command.get_help
    print_lines([whole(at)])


_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for your shell, to be read when it starts.

    \b
    Example:
      source <(runward completion bash)

    \b
    Put that line into ~/.bashrc (for zsh, into ~/.zshrc). For fish:
      runward completion fish > ~/.config/fish/completions/runward.fish
    """
    from click.shell_completion import get_completion_class  # only this command needs it

    script = get_completion_class(shell)
    assert script is not None, "click has each of the shells offered"
    click.echo(script(context.find_root().command, {}, "runward", "_RUNWARD_COMPLETE").source())
