"""The hooks' events that tell something which the daemon can use, and since which version each agent knows them."""

from collections.abc import Mapping, Sequence
from typing import Final

from runward.daemon.hooks.programs import Program, Version, name_of

SINCE: Final[Mapping[str, Mapping[str, Version]]] = {
    "claude-code": {
        "SessionStart": (1, 0, 62),
        "UserPromptSubmit": (1, 0, 54),
        "Stop": (1, 0, 38),
        "StopFailure": (2, 1, 78),
        "SessionEnd": (1, 0, 85),
    },
    "codex": {"notify": (0, 0, 0)},
    # It reads hooks of the person's, and not only of a repository's, since then; it knew these four before.
    "copilot": dict.fromkeys(("sessionStart", "userPromptSubmitted", "agentStop", "sessionEnd"), (0, 0, 422)),
    "droid": {
        **dict.fromkeys(("SessionStart", "UserPromptSubmit", "Stop"), (0, 24, 0)),
        "SessionEnd": (0, 57, 10),
    },
    "kilo": dict.fromkeys(("session.created", "session.status", "session.idle"), (7, 0, 33)),
    "kimi": dict.fromkeys(
        ("SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SessionEnd"), (0, 10, 0)
    ),
    # The other two are older, but only the status tells that a turn has begun.
    "opencode": dict.fromkeys(("session.created", "session.status", "session.idle"), (1, 0, 78)),
    "pi": dict.fromkeys(("session_start", "before_agent_start", "agent_end", "session_shutdown"), (0, 35, 0)),
    "qwen": {
        "SessionStart": (0, 15, 6),
        "UserPromptSubmit": (0, 12, 0),
        "Stop": (0, 12, 0),
        "StopFailure": (0, 15, 6),
        "SessionEnd": (0, 15, 6),
    },
}
"""By the layout's name: the first version that calls the hook, of those that we looked into, or that its changelog names.

Which hooks of its `hooks.json` it knows, Codex says itself.
"""

_ASSUMED: Final[Mapping[str, Version]] = {"claude-code": (2, 0, 0)}
"""The version that counts where none is known, if an agent may not be offered all its events: almost nobody uses an older one.

Claude Code drops all its settings for one event that it doesn't know.
"""


def events_of(agent: str) -> tuple[str, ...]:
    """All events of the agent that tell something which the daemon can use."""
    return tuple(SINCE[agent])


def known_to(agent: str, program: Program | None) -> tuple[str, ...]:
    """The events that the program knows; without one, or a version, those that it very probably does."""
    version = (program.version if program is not None else None) or _ASSUMED.get(agent)
    return tuple(event for event, since in SINCE[agent].items() if version is None or since <= version)


def said_of(agent: str, program: Program | None, events: Sequence[str], known: Sequence[str]) -> str | None:
    """Why the agent's hook is only for these `known` ones of its `events`, or may be for too many; None if neither is so."""
    unknown = ", ".join(event for event in events if event not in known)
    if program is None or program.version is None:
        who = f"no program of {name_of(agent)} was found" if program is None else f"{program.name} was found"
        rest = f" but {unknown}" if unknown else ""
        return f"{who}: the hook is for all events that Runward uses{rest}"
    if not unknown:
        return None
    if not known:
        return f"{program.name} calls none of the hooks that Runward uses: it gets none until it is updated"
    return f"{program.name} doesn't know {unknown}: the hook is for the other events"
