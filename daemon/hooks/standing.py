"""Whether Runward's hook is in the settings of the agents that are here."""

import os
from collections.abc import Mapping
from typing import Final

from runward.daemon.hooks.agents import AGENTS, home_with_settings, settings_path
from runward.daemon.hooks.settings_file import Refused, read_settings_file

INSTALLED: Final = "installed"
NOT_INSTALLED: Final = "not installed"


def hooks_here(environment: Mapping[str, str]) -> dict[str, str]:
    """Whether each agent whose home is here has the hook; if its settings can't be read, why."""
    return {
        agent: _standing(agent, settings_path(agent, environment))
        for agent in AGENTS
        if os.path.isdir(home_with_settings(agent, environment))
    }


def _standing(agent: str, path: str) -> str:
    try:
        text = read_settings_file(path).text
        return INSTALLED if text is not None and AGENTS[agent].has_ours(text, path) else NOT_INSTALLED
    except Refused as refusal:
        return refusal.problem.message
    except OSError as error:
        return error.strerror or "it can't be read"
