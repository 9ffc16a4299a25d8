"""Where agents keep the settings that hooks are in, and whether Runward's hook is there."""

import os
from collections.abc import Mapping
from typing import Final

from runward.daemon.configuration.agent_homes import agent_home
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.hooks import claude_code_settings, codex_settings
from runward.daemon.hooks.settings_file import Refused, read_settings_file

AGENTS: Final = (claude_code_settings.AGENT, codex_settings.AGENT)
"""The agents that have hooks."""

INSTALLED: Final = "installed"
NOT_INSTALLED: Final = "not installed"

_FILES: Final = {claude_code_settings.AGENT: "settings.json", codex_settings.AGENT: "config.toml"}
_HAS_OURS: Final = {
    claude_code_settings.AGENT: claude_code_settings.has_ours,
    codex_settings.AGENT: codex_settings.has_ours,
}


def settings_path(agent: str, environment: Mapping[str, str]) -> str:
    """Where the agent keeps its settings: in the directory that its variable names, else in its usual one."""
    home = agent_home(agent, environment, home_of(environment), working_directory())
    return os.path.join(home, _FILES[agent])


def hooks_here(environment: Mapping[str, str]) -> dict[str, str]:
    """Whether each agent whose home is here has the hook; if its settings can't be read, why."""
    paths = {agent: settings_path(agent, environment) for agent in AGENTS}
    return {
        agent: _standing(agent, path) for agent, path in paths.items() if os.path.isdir(os.path.dirname(path))
    }


def _standing(agent: str, path: str) -> str:
    try:
        text = read_settings_file(path).text
        return INSTALLED if text is not None and _HAS_OURS[agent](text, path) else NOT_INSTALLED
    except Refused as refusal:
        return refusal.problem.message
    except OSError as error:
        return error.strerror or "it can't be read"
