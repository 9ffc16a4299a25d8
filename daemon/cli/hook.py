"""`runward hook`: what an agent's own hook runs, and how it gets into the agent's settings and out of them."""

import difflib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Final

import click

from runward.config.problem import Problem
from runward.config.root import AUTO
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.terminal.options import json_option, listed
from runward.daemon.cli.terminal.output import (
    Columns,
    Failed,
    coloured,
    complain,
    fail,
    note,
    print_list,
    print_text,
    safe,
)
from runward.daemon.configuration.agent_homes import agent_home, sessions_in
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.hooks import codex_settings
from runward.daemon.hooks.accepting import accepts
from runward.daemon.hooks.agents import AGENTS, Hooked, files_of
from runward.daemon.hooks.claude_code_settings import CLAUDE_CODE
from runward.daemon.hooks.events import said_of
from runward.daemon.hooks.programs import Program, installed, name_of
from runward.daemon.hooks.settings_file import (
    SCRIPT,
    Edited,
    Refused,
    SettingsFile,
    read_settings_file,
    words_of,
)
from runward.daemon.hooks.standing import (
    NOT_INSTALLED,
    OUTDATED,
    UNTRUSTED,
    Standing,
    agents_here,
    hooks_here,
    standing_of,
)


@click.group(cls=Group)
def hook() -> None:
    """Install, show and remove the hooks of agents, which report to the daemon at once what it would find out later.

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
    _become_script(CLAUDE_CODE.agent, words)


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


_agents = click.argument("agents", metavar="[AGENT]...", type=click.Choice(tuple(AGENTS)), nargs=-1)
_sure = click.option("--yes", "-y", is_flag=True, help="Don't ask.")
_dry = click.option("--dry-run", is_flag=True, help="Only show what would change.")


@hook.command("install")
@_agents
@_sure
@_dry
@click.pass_context
def install(context: click.Context, agents: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Add the hook to the settings of agents; without a name, of those that are here, after asking.

    The settings are settings.json, notify in config.toml, or a file of hooks.

    The change is shown first. The rest of the file stays unchanged, byte for byte.

    \b
    Example:
      runward hook install claude-code --dry-run
    """
    settings = own_settings(context)
    if not agents:
        here = hooks_here(os.environ)
        if not here:
            fail(f"there is no agent here whose hooks are known; name one of {', '.join(AGENTS)}", NOT_SO)
        agents = tuple(_wanted(here, "install", yes or dry_run))
    _one_by_one(agents, lambda agent: _install(agent, settings, dry_run))


def _wanted(there: Mapping[str, str], verb: str, is_sure: bool) -> Iterator[str]:
    """Of these agents, each with how its hook stands, those that the person wants."""
    if not is_sure and not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail(f"there is no terminal to ask on: name agents ({', '.join(there)}), or add --yes", WRONG_USAGE)
    for agent, standing in there.items():
        if is_sure or click.confirm(f"{name_of(agent)} ({standing}): {verb} the hook?", default=True):
            yield agent


def _one_by_one(agents: Sequence[str], change: Callable[[str], None]) -> None:
    """Change each agent's settings. One that fails doesn't stop the others; the worst exit code counts."""
    codes = [GOOD]
    for agent in dict.fromkeys(agents):
        try:
            change(agent)
        except Failed as failed:
            codes.append(failed.exit_code)
    sys.exit(max(codes))


def _install(agent: str, settings: Settings, dry_run: bool) -> None:
    state = settings.state_dir
    words = words_of(agent, state)
    # A newline in such a path would end the command in the agent's settings, and begin another one.
    if not "".join(words).isprintable():
        fail(
            "the path of Python, Runward or its state contains characters that can't be used in a command",
            NOT_SO,
        )

    program, files = installed(agent, os.environ), files_of(agent, os.environ)
    known = {path: hooked.known(program) for path, hooked in files.items()}
    changes = [
        _install_in(path, hooked, agent, state, program, known[path], dry_run)
        for path, hooked in files.items()
    ]
    events = [event for hooked in files.values() for event in hooked.all_events]
    found = list(chain.from_iterable(known.values()))
    said = said_of(agent, program, events, found)
    if said is not None and (any(changes) or not found):
        print_text(safe(said))
    if not any(changes) or any(root.layout in (agent, AUTO) for root in settings.roots):
        return
    if all(f"roots.{root.name}" not in settings.origin for root in settings.roots):
        print_text(
            "its sessions are followed from the daemon's next start, or when it reads its settings again"
        )
        return
    print_text(
        f'but no root has the layout "{agent}", so its sessions are not followed; add to runward.toml:\n'
    )
    home = agent_home(agent, os.environ, home_of(os.environ), working_directory())
    sessions = sessions_in(agent, home)
    click.echo(f'[[roots]]\npath = "{safe(sessions)}"\nlayout = "{agent}"')


def _install_in(
    path: str,
    hooked: Hooked,
    agent: str,
    state: str,
    program: Program | None,
    events: Sequence[str],
    dry_run: bool,
) -> bool:
    """Put the hook for these events into one of the agent's files; whether anything changes."""

    def edit(text: str | None, name: str) -> Edited:
        return hooked.install(text, name, state, events)

    def check(undo: Callable[[], None]) -> None:
        # What is installed for the others is nothing that they refuse.
        if agent == CLAUDE_CODE.agent and program is not None:
            _check_accepted(program, events, undo)

    if not events and not os.path.lexists(path):
        return False  # this version has no such hooks
    standing = "the hook is installed in" if events else "there is no Runward hook in"
    removes = f"runward hook uninstall {agent} removes it" if events else ""
    changes = _carry_out(path, hooked, edit, events, dry_run, standing, removes, check)
    if hooked.is_trusted is not None and not dry_run and events:
        text = read_settings_file(path).text
        if text is not None and not hooked.is_trusted(path, text, program):
            print_text(f"{name_of(agent)} skips hooks in {safe(path)}: {hooked.trust}")
    return changes


@hook.command("uninstall")
@_agents
@_sure
@_dry
def uninstall(agents: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Remove the hook from the settings of agents; without a name, from all that have it, after asking.

    Only what `install` added is removed.

    \b
    Example:
      runward hook uninstall codex
    """
    if not agents:
        there = {each: said for each, said in hooks_here(os.environ).items() if said != NOT_INSTALLED}
        if not there:
            print_text("nothing to change: no agent here has the hook")
            return
        agents = tuple(_wanted(there, "remove", yes or dry_run))

    def remove(agent: str) -> None:
        for path, hooked in files_of(agent, os.environ).items():
            _carry_out(path, hooked, hooked.uninstall, (), dry_run, "there is no Runward hook in", "")

    _one_by_one(agents, remove)


def _events(standing: Standing) -> str:
    missing = f" (without {', '.join(standing.missing)})" if standing.events and standing.missing else ""
    return f"{', '.join(standing.events)}{missing}" or "-"


def _next(standing: Standing) -> str:
    if standing.problem is not None:
        return safe(standing.problem)
    if standing.state == UNTRUSTED:
        return str(standing.trust)
    if standing.state == NOT_INSTALLED and not standing.missing:
        return f"update {name_of(standing.agent)}, which is too old for hooks"
    is_due = standing.state in (NOT_INSTALLED, OUTDATED)
    return f"runward hook install {standing.agent}" if is_due else "-"


_COLUMNS: Final[Columns[Standing]] = {
    "AGENT": lambda standing: standing.agent,
    "STATE": lambda standing: coloured(standing.state),
    "FILES": lambda standing: safe(", ".join(standing.paths)),
    "NEXT": _next,
    "EVENTS": _events,
}


@hook.command("status")
@_agents
@listed(_COLUMNS)
@json_option()
@click.pass_context
def status(context: click.Context, agents: tuple[str, ...], as_json: bool) -> None:
    """Show how the hooks of agents stand; without a name, of those that are here.

    \b
    Example:
      runward hook status --json
    """
    state = own_settings(context).state_dir
    shown = dict.fromkeys(agents or agents_here(os.environ))
    # Each agent is asked for its version, which takes some of them a second.
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(lambda agent: standing_of(agent, os.environ, state), shown))
    nothing = f"there is no agent here whose hooks are known ({', '.join(AGENTS)})"
    print_list(rows, _COLUMNS, as_json, value=lambda row: row.as_json, nothing=nothing)


def _check_accepted(program: Program, events: Sequence[str], undo: Callable[[], None]) -> None:
    """See whether the installed program takes settings with these hooks; else undo, and end with 1."""
    match accepts(program, events, os.environ):
        case True:
            print_text(f"{safe(program.name)} accepts the hooks")
        case None:
            why = f"{program.name} could not be asked whether it accepts the hooks: it called none when it started"
            note(f"{why}; see with /hooks in Claude Code whether they are there")
        case False:
            undo()
            fail(f"{program.name} does not accept the hooks: the settings were put back as they were", NOT_SO)


def _nothing_to_check(undo: Callable[[], None]) -> None:
    """For settings that can't be refused."""


def _carry_out(
    path: str,
    hooked: Hooked,
    edit: Callable[[str | None, str], Edited],
    events: Sequence[str],
    dry_run: bool,
    state: str,
    more: str,
    check: Callable[[Callable[[], None]], None] = _nothing_to_check,
) -> bool:
    """Edit a file with an agent's hooks, after showing how; whether anything changes. Ends with 2 if it must be left alone.

    It is read back: it must have hooks for these `events`, and all that was there besides. `check` gets a function that
    restores the file.
    """
    try:
        file = read_settings_file(path)
        text = edit(file.text, path).text
        if text == file.text:
            print_text(f"nothing to change: {state} {safe(path)}")
            return False
        show_change(file, text)
        if not dry_run:
            levels = _own_levels(path, hooked)
            file.replace(text, levels=levels)
            wrong = hooked.differs(file, events)
            if wrong is not None:
                _undo(file, text, levels)
                fail(f"{safe(path)} was put back as it was: read back, it {safe(wrong)}", NOT_SO)
            check(lambda: _undo(file, text, levels))
    except Refused as refusal:
        complain([refusal.problem])
        fail(f"{path} was left as it is", WRONG_USAGE)
    if dry_run:
        print_text("nothing was changed (--dry-run)")
    else:
        print_text(f"done: {state} {safe(path)}{f' ({more})' if more else ''}")
    return True


def _own_levels(path: str, hooked: Hooked) -> int:
    """How many of the directories above an agent's file are the agent's own: all of a hidden one in the person's home."""
    below = os.path.relpath(path, home_of(os.environ))
    is_usual = below.startswith(".") and not below.startswith("..")
    return below.count("/") if is_usual else hooked.file.count("/") + 1


def _undo(file: SettingsFile, text: str | None, levels: int) -> None:
    """Restore `file` to what it was before `text` was written. Raises `Refused` if somebody else wrote it since."""
    now = read_settings_file(file.path)
    if now.text != text:
        fix = "remove Runward's hooks with `runward hook uninstall`"
        raise Refused(Problem(file.path, None, None, "was changed while it was checked", fix))
    now.replace(file.text, levels=levels)


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
