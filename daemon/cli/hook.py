"""`runward hook`: what an agent's own hook runs, and how it gets into the agent's settings and out of them."""

import difflib
import os
import sys
from collections.abc import Callable, Sequence

import click

from runward.config.problem import Problem
from runward.config.root import AUTO
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.terminal.output import complain, fail, note, safe
from runward.daemon.configuration.agent_homes import agent_home, sessions_in
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.hooks import claude_code_settings, codex_settings
from runward.daemon.hooks.agents import AGENTS, settings_path
from runward.daemon.hooks.claude_code_settings import accepts, events_of
from runward.daemon.hooks.programs import Program, installed
from runward.daemon.hooks.settings_file import (
    SCRIPT,
    Edited,
    Refused,
    SettingsFile,
    read_settings_file,
    words_of,
)


@click.group(cls=Group)
def hook() -> None:
    """Install and remove the hooks of agents, which report to the daemon at once what it would find out later.

    \b
    Example:
      runward hook install claude-code --dry-run
    """


class _Script(click.Command):
    """A command whose words all go to the script, as they are."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if args[:1] in (["--help"], ["-h"]):
            return super().parse_args(context, args)
        context.params = {"words": tuple(args)}  # the options are the script's to read
        return []


_state = click.option(
    "--state",
    metavar="DIR",
    shell_complete=completing.directories,
    help="The daemon's state directory (default: the usual one).",
)
_words = click.argument("words", nargs=-1, type=click.UNPROCESSED)


@hook.command("claude-code", cls=_Script)
@_state
@_words
def claude_code(words: tuple[str, ...]) -> None:
    """Called by Claude Code's hook. The payload comes on stdin. Prints nothing and exits with 0.

    \b
    Example:
      runward hook claude-code < payload.json
    """
    _become_script(claude_code_settings.AGENT, words)


@hook.command("codex", cls=_Script)
@_state
@_words
def codex(words: tuple[str, ...]) -> None:
    """Called by Codex's notify. The payload is the last argument. Prints nothing and exits with 0.

    \b
    Example:
      runward hook codex '{"type": "agent-turn-complete", "thread-id": "0199"}'
    """
    _become_script(codex_settings.AGENT, words)


def _become_script(agent: str, words: tuple[str, ...]) -> None:
    # The script needs only Python itself: so no site packages (-S), and nothing from the agent's PYTHON* variables (-E).
    os.execv(sys.executable, [sys.executable, "-S", "-E", SCRIPT, agent, *words])  # noqa: S606  # no shell


_dry = click.option("--dry-run", is_flag=True, help="Only show what would change.")


@hook.command("install")
@click.argument("agent", type=click.Choice(tuple(AGENTS)))
@_dry
@click.pass_context
def install(context: click.Context, agent: str, dry_run: bool) -> None:
    """Add the hook to the agent's settings.

    The settings are settings.json, notify in config.toml, or a file of hooks.

    The change is shown first. The rest of the file stays unchanged, byte for byte.

    \b
    Example:
      runward hook install claude-code --dry-run
    """
    settings = own_settings(context)
    state = settings.state_dir
    words = words_of(agent, state)
    # A newline in such a path would end the command in the agent's settings, and begin another one.
    if not "".join(words).isprintable():
        fail(
            "the path of Python, Runward or its state contains characters that can't be used in a command",
            NOT_SO,
        )

    program = installed(agent, os.environ) if agent == claude_code_settings.AGENT else None
    events = events_of(program)

    def edit(text: str | None, name: str) -> Edited:
        return AGENTS[agent].install(text, name, state, program)

    def check(undo: Callable[[], None]) -> None:
        if program is not None:
            _check_accepted(program, events, undo)
        elif agent == claude_code_settings.AGENT:
            click.echo(
                "Claude Code was not found: the hook is for the events that 2.0 and later versions know"
            )

    removes = f"runward hook uninstall {agent} removes it"
    _carry_out(
        agent=agent, edit=edit, dry_run=dry_run, state="the hook is installed in", more=removes, check=check
    )
    if any(root.layout in (agent, AUTO) for root in settings.roots):
        return
    if all(f"roots.{root.name}" not in settings.origin for root in settings.roots):
        click.echo(
            "its sessions are followed from the daemon's next start, or when it reads its settings again"
        )
        return
    click.echo(
        f'but no root has the layout "{agent}", so its sessions are not followed; add to runward.toml:\n'
    )
    home = agent_home(agent, os.environ, home_of(os.environ), working_directory())
    sessions = sessions_in(agent, home)
    click.echo(f'[[roots]]\npath = "{safe(sessions)}"\nlayout = "{agent}"')


@hook.command("uninstall")
@click.argument("agent", type=click.Choice(tuple(AGENTS)))
@_dry
def uninstall(agent: str, dry_run: bool) -> None:
    """Remove the hook from the agent's settings.

    Only what `install` added is removed.

    \b
    Example:
      runward hook uninstall codex
    """
    _carry_out(agent, AGENTS[agent].uninstall, dry_run, "there is no Runward hook in", "")


def _check_accepted(program: Program, events: Sequence[str], undo: Callable[[], None]) -> None:
    """See whether the installed program takes settings with these hooks; else undo, and end with 1."""
    match accepts(program, events, os.environ):
        case True:
            click.echo(f"{safe(program.name)} accepts the hooks")
        case None:
            why = f"{program.name} could not be asked whether it accepts the hooks: it called none when it started"
            note(f"{why}; see with /hooks in Claude Code whether they are there")
        case False:
            undo()
            fail(f"{program.name} does not accept the hooks: the settings were put back as they were", NOT_SO)


def _nothing_to_check(undo: Callable[[], None]) -> None:
    """For settings that can't be refused."""


def _carry_out(
    agent: str,
    edit: Callable[[str | None, str], Edited],
    dry_run: bool,
    state: str,
    more: str,
    check: Callable[[Callable[[], None]], None] = _nothing_to_check,
) -> None:
    """Edit the agent's settings, after showing how; ends with 2 if the file must be left alone.

    `check` gets a function that restores the file.
    """
    path = settings_path(agent, os.environ)
    try:
        file = read_settings_file(path)
        text = edit(file.text, path).text
        if text == file.text:
            click.echo(f"nothing to change: {state} {safe(path)}")
            sys.exit(GOOD)
        show_change(file, text)
        if not dry_run:
            file.replace(text, levels=AGENTS[agent].file.count("/") + 1)
            check(lambda: _undo(file, text))
    except Refused as refusal:
        complain([refusal.problem])
        fail(f"{path} was left as it is", WRONG_USAGE)
    if dry_run:
        click.echo("nothing was changed (--dry-run)")
    else:
        click.echo(f"done: {state} {safe(path)}{f' ({more})' if more else ''}")


def _undo(file: SettingsFile, text: str | None) -> None:
    """Restore `file` to what it was before `text` was written. Raises `Refused` if somebody else wrote it since."""
    now = read_settings_file(file.path)
    if now.text != text:
        fix = "remove Runward's hooks with `runward hook uninstall`"
        raise Refused(Problem(file.path, None, None, "was changed while it was checked", fix))
    now.replace(file.text)


def show_change(file: SettingsFile, text: str | None) -> None:
    """The change as a unified diff."""
    before, after = (each.splitlines() if each is not None else [] for each in (file.text, text))
    names = (
        file.path if file.text is not None else "/dev/null",
        file.path if text is not None else "/dev/null",
    )
    for line in difflib.unified_diff(before, after, *names, lineterm=""):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.secho(safe(line), fg=colour)
