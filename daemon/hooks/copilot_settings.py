"""GitHub Copilot's `hooks/runward.json`: a file of hooks that is Runward's alone, beside those of others."""

import json
from collections.abc import Sequence
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.problem import Problem
from runward.daemon.hooks.settings_file import Edited, Refused, is_our_shell_command

AGENT: Final = "copilot"


def install(text: str | None, name: str, command: str, events: Sequence[str]) -> Edited:
    """The file with our `command` for each of these events. Raises `Refused` if it is another's."""
    if text is not None:
        _expect_ours(text, name)
    if not events:
        return Edited(None)
    hooks = {event: [{"type": "command", "bash": command}] for event in events}
    return Edited(json.dumps({"version": 1, "hooks": hooks}, indent=2, ensure_ascii=False) + "\n")


def uninstall(text: str | None, name: str) -> Edited:
    """No file. Raises `Refused` if it is another's."""
    if text is not None:
        _expect_ours(text, name)
    return Edited(None)


def events_in(text: str, name: str) -> tuple[str, ...]:
    """The events in our file. Raises `Refused` if it is another's."""
    return tuple(_expect_ours(text, name))


def others_in(text: str, name: str) -> list[object]:
    """Nothing: the file is ours alone. Raises `Refused` if it is another's."""
    _expect_ours(text, name)
    return []


def _expect_ours(text: str, name: str) -> dict[str, JsonValue]:
    """The hooks in our file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    hooks = document.get("hooks") if isinstance(document, dict) else None
    ours: dict[str, JsonValue] = hooks if isinstance(hooks, dict) else {}
    entries = [entry for each in ours.values() for entry in (each if isinstance(each, list) else [None])]
    commands = [entry.get("bash") if isinstance(entry, dict) else None for entry in entries]
    # It is replaced and removed as a whole, so nothing of anybody else's may be in it.
    if not commands or not all(is_our_shell_command(each, AGENT) for each in commands):
        fix = "move it to a file with another name, and try again"
        raise Refused(Problem(name, None, None, "has something else than Runward's hooks", fix))
    return ours
