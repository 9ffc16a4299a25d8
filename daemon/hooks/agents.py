"""The agents that have hooks: where the settings with them are, and how ours are put in and taken out."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from runward.daemon.configuration.agent_homes import settings_home
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.hooks import (
    claude_code_settings,
    codex_hooks,
    codex_settings,
    copilot_settings,
    droid_hooks,
    kimi_settings,
)
from runward.daemon.hooks.claude_code_settings import CLAUDE_CODE, DROID, QWEN, Form
from runward.daemon.hooks.events import events_of, known_to
from runward.daemon.hooks.modules import KILO, OPENCODE, PI, Module
from runward.daemon.hooks.programs import Program
from runward.daemon.hooks.settings_file import (
    Edited,
    Refused,
    SettingsFile,
    read_settings_file,
    shell_command,
    words_of,
)


class Hooked(NamedTuple):
    """A file with an agent's hooks, below its home.

    `known` are those of `all_events` that get a hook with the installed program. `install` gets a text, its name, the state
    directory, and these events. `events` are those that have a hook of Runward's in a text, `others` is all that else is in
    it, as the agent reads it, in a form that can be compared. If the agent skips hooks until its person does something,
    `is_trusted` gets a path, the text there and the program, and `trust` says what the person has to do.
    """

    file: str
    all_events: tuple[str, ...]
    known: Callable[[Program | None], tuple[str, ...]]
    install: Callable[[str | None, str, str, Sequence[str]], Edited]
    uninstall: Callable[[str | None, str], Edited]
    events: Callable[[str, str], tuple[str, ...]]
    others: Callable[[str, str], list[object]]
    is_trusted: Callable[[str, str, Program | None], bool | None] | None = None
    trust: str = ""

    def differs(self, file: SettingsFile, events: Sequence[str]) -> str | None:
        """Read back what was written over `file`: what is wrong, if it hasn't hooks for these events and else what was there."""
        before, after = file.text, read_settings_file(file.path).text
        try:
            there = () if after is None else self.events(after, file.path)
            kept, found = ([] if text is None else self.others(text, file.path) for text in (before, after))
        except Refused as refusal:
            return refusal.problem.message
        if set(there) != set(events):
            return (
                f"has hooks for {', '.join(there) or 'nothing'} instead of {', '.join(events) or 'nothing'}"
            )
        return None if kept == found else "lost or changed something besides Runward's hooks"


Command_contra = TypeVar("Command_contra", contravariant=True)


class _Settings(Protocol[Command_contra]):
    """What edits the settings of one agent; it gets the hook's command as the agent wants it, and for which events."""

    def install(
        self, text: str | None, name: str, command: Command_contra, events: Sequence[str], /
    ) -> Edited: ...

    def uninstall(self, text: str | None, name: str, /) -> Edited: ...

    def events_in(self, text: str, name: str, /) -> tuple[str, ...]: ...

    def others_in(self, text: str, name: str, /) -> list[object]: ...


def _in_own_form(
    settings: _Settings[Command_contra],
    file: str,
    agent: str,
    command: Callable[[str, str], Command_contra],
) -> Hooked:
    """An agent whose settings have a form of their own, or are a module of ours. `command` makes the hook's command."""

    def install(text: str | None, name: str, state: str, events: Sequence[str]) -> Edited:
        return settings.install(text, name, command(agent, state), events)

    return Hooked(
        file=file,
        all_events=events_of(agent),
        known=partial(known_to, agent),
        install=install,
        uninstall=settings.uninstall,
        events=settings.events_in,
        others=settings.others_in,
    )


def _module(module: Module, file: str) -> Hooked:
    return _in_own_form(module, file, module.agent, words_of)


def _in_form_of(form: Form, file: str = "settings.json") -> Hooked:
    """An agent whose settings have Claude Code's form."""

    def install(text: str | None, name: str, state: str, events: Sequence[str]) -> Edited:
        return claude_code_settings.install(text, name, shell_command(form.agent, state), events, form)

    return Hooked(
        file=file,
        all_events=form.events,
        known=partial(known_to, form.agent),
        install=install,
        uninstall=partial(claude_code_settings.uninstall, form=form),
        events=partial(claude_code_settings.events_in, form=form),
        others=partial(claude_code_settings.others_in, form=form),
    )


AGENTS: Final[Mapping[str, tuple[Hooked, ...]]] = {
    CLAUDE_CODE.agent: (_in_form_of(CLAUDE_CODE),),
    codex_settings.AGENT: (
        _in_own_form(codex_settings, "config.toml", codex_settings.AGENT, words_of),
        _in_form_of(codex_hooks.FORM, codex_hooks.FILE)._replace(
            known=codex_hooks.known,
            is_trusted=codex_hooks.is_trusted,
            trust=codex_hooks.TRUST,
        ),
    ),
    copilot_settings.AGENT: (
        _in_own_form(copilot_settings, "hooks/runward.json", copilot_settings.AGENT, shell_command),
    ),
    DROID.agent: (_in_form_of(DROID)._replace(is_trusted=droid_hooks.is_called, trust=droid_hooks.TRUST),),
    kimi_settings.AGENT: (_in_own_form(kimi_settings, "config.toml", kimi_settings.AGENT, shell_command),),
    KILO.agent: (_module(KILO, "plugin/runward.js"),),
    OPENCODE.agent: (_module(OPENCODE, "plugin/runward.js"),),
    PI.agent: (_module(PI, "extensions/runward.js"),),
    QWEN.agent: (_in_form_of(QWEN),),
}
"""By the layout's name. A new agent is its line here, in `handlers/layouts/hooks.py`, and in the script."""


def home_with_settings(agent: str, environment: Mapping[str, str]) -> str:
    """The directory with the agent's settings: the one that its variable names, else its usual one."""
    return settings_home(agent, environment, home_of(environment), working_directory())


def files_of(agent: str, environment: Mapping[str, str]) -> dict[str, Hooked]:
    """The files with the agent's hooks, by their paths."""
    home = home_with_settings(agent, environment)
    return {os.path.join(home, each.file): each for each in AGENTS[agent]}
