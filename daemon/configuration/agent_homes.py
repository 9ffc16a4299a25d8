"""Where agents keep their files, and their sessions among them.

Imports stay cheap, for the launcher's start-up.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

PROJECTS: Final = "projects"
"""The directory in Claude Code's home that has its sessions."""

# The variables that name the home (the first one that is set does), or with what follows a slash what it is in, the usual one in the
# user's, where sessions are in it, and a glob for their files.
# Codex moves an archived thread to another directory, so all of its home is watched.
_HOMES: Final = {
    "claude-code": (("CLAUDE_CONFIG_DIR",), ".claude", PROJECTS, "*/*.jsonl"),
    "cline": (("CLINE_DIR",), ".cline", "data/sessions", "*/[0-9]*.messages.json"),
    "codex": (("CODEX_HOME",), ".codex", "", "sessions/*/*/*/rollout-*.jsonl*"),
    "copilot": (("COPILOT_HOME",), ".copilot", "session-state", "*/events.jsonl"),
    "droid": (("FACTORY_HOME_OVERRIDE/.factory",), ".factory", "sessions", "*/*.jsonl"),
    "kimi": (("KIMI_CODE_HOME",), ".kimi-code", "sessions", "*/*/agents/main/wire.jsonl"),
    "kilo": (("XDG_DATA_HOME/kilo",), ".local/share/kilo", "", "kilo*.db"),
    "opencode": (("XDG_DATA_HOME/opencode",), ".local/share/opencode", "", "opencode*.db"),
    "qwen": (("QWEN_RUNTIME_DIR", "QWEN_HOME"), ".qwen", PROJECTS, "*/chats/*.jsonl"),
    "pi": (("PI_CODING_AGENT_DIR",), ".pi/agent", "sessions", "*/*.jsonl"),
}


def agent_home(agent: str, environment: Mapping[str, str], home: str, cwd: str) -> str:
    """The directory that the agent's variable names, else its usual one in `home`; absolute."""
    variables, usual, _, _ = _HOMES[agent]
    return os.path.join(cwd, _named(variables, environment) or f"{home}/{usual}")


# The same for those whose settings are elsewhere.
_SETTINGS: Final = {
    "kilo": (("XDG_CONFIG_HOME/kilo",), ".config/kilo"),
    "opencode": (("XDG_CONFIG_HOME/opencode",), ".config/opencode"),
}


def settings_home(agent: str, environment: Mapping[str, str], home: str, cwd: str) -> str:
    """The same for its settings. Of several variables, only the last is about them."""
    variables, usual = _SETTINGS.get(agent, _HOMES[agent][:2])
    return os.path.join(cwd, _named(variables[-1:], environment) or f"{home}/{usual}")


def _named(variables: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    for each in variables:
        variable, _, inside = each.partition("/")
        if environment.get(variable):
            return f"{environment[variable]}/{inside}".rstrip("/")
    return None


def sessions_in(agent: str, directory: str) -> str:
    """Where the agent's sessions are in its home."""
    return os.path.join(directory, _HOMES[agent][2]).rstrip("/")


def session_files(agent: str) -> str:
    """A glob for the files of sessions there."""
    return _HOMES[agent][3]


def homes_there(environment: Mapping[str, str], home: str, cwd: str) -> dict[str, str]:
    """Where sessions are, by the agent's layout, for those agents whose home exists."""
    homes = {agent: os.path.normpath(agent_home(agent, environment, home, cwd)) for agent in _HOMES}
    return {agent: sessions_in(agent, path) for agent, path in homes.items() if os.path.isdir(path)}
