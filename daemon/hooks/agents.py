"""The agents that have hooks: where the settings with them are, and how ours are put in and taken out."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from runward.daemon.configuration.agent_homes import settings_home
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.hooks import claude_code_settings, codex_settings, copilot_settings
from runward.daemon.hooks.claude_code_settings import CLAUDE_CODE, DROID, QWEN, Form, events_of
from runward.daemon.hooks.programs import Program
from runward.daemon.hooks.settings_file import Edited, shell_command, words_of


class Hooked(NamedTuple):
    """An agent with hooks. `file` has them, below its home.

    `install` gets a text, its name, the state directory, and the installed program. `says` is what it adds.
    """

    file: str
    install: Callable[[str | None, str, str, Program | None], Edited]
    uninstall: Callable[[str | None, str], Edited]
    has_ours: Callable[[str, str], bool]
    says: Callable[[Program | None], str]


def _in_codex(text: str | None, name: str, state: str, program: Program | None) -> Edited:
    return codex_settings.install(text, name, words_of(codex_settings.AGENT, state))


def _in_copilot(text: str | None, name: str, state: str, program: Program | None) -> Edited:
    return copilot_settings.install(text, name, shell_command(copilot_settings.AGENT, state))


def _in_form_of(form: Form, events: Callable[[Program | None], Sequence[str]] | None = None) -> Hooked:
    """An agent whose settings have Claude Code's form. It gets the `events` of its version, or else all of the form."""
    known = events if events is not None else lambda program: form.events

    def install(text: str | None, name: str, state: str, program: Program | None) -> Edited:
        command = shell_command(form.agent, state)
        return claude_code_settings.install(text, name, command, known(program), form)

    return Hooked(
        file="settings.json",
        install=install,
        uninstall=partial(claude_code_settings.uninstall, form=form),
        has_ours=partial(claude_code_settings.has_ours, form=form),
        says=lambda program: f"{len(known(program))} hooks",
    )


AGENTS: Final[Mapping[str, Hooked]] = {
    CLAUDE_CODE.agent: _in_form_of(CLAUDE_CODE, events_of),
    codex_settings.AGENT: Hooked(
        file="config.toml",
        install=_in_codex,
        uninstall=codex_settings.uninstall,
        has_ours=codex_settings.has_ours,
        says=lambda _: f"{codex_settings.KEY} calls Runward",
    ),
    copilot_settings.AGENT: Hooked(
        file="hooks/runward.json",
        install=_in_copilot,
        uninstall=copilot_settings.uninstall,
        has_ours=copilot_settings.has_ours,
        says=lambda _: f"{len(copilot_settings.EVENTS)} hooks",
    ),
    DROID.agent: _in_form_of(DROID),
    QWEN.agent: _in_form_of(QWEN),
}
"""By the layout's name. A new agent is its line here, in `handlers/layouts/hooks.py`, and in the script."""


def home_with_settings(agent: str, environment: Mapping[str, str]) -> str:
    """The directory with the agent's settings: the one that its variable names, else its usual one."""
    return settings_home(agent, environment, home_of(environment), working_directory())


def settings_path(agent: str, environment: Mapping[str, str]) -> str:
    """The file with the agent's hooks."""
    return os.path.join(home_with_settings(agent, environment), AGENTS[agent].file)
