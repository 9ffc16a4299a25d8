"""Droid's `hooks.json`, which goes before its `settings.json`: for an event that has hooks there, Droid calls no other."""

import json
import os
from typing import Final

from runward.daemon.hooks.claude_code_settings import DROID, events_in
from runward.daemon.hooks.programs import Program
from runward.daemon.hooks.settings_file import Refused, is_our_shell_command, read_settings_file

FILE: Final = "hooks.json"

TRUST: Final = f"for each event that has hooks in {FILE} beside it, add the command there, too"
"""What a person has to do before Droid calls them."""


def is_called(path: str, text: str, _: Program | None) -> bool | None:
    """Whether Droid calls all of our hooks in these settings; None if that can't be found out."""
    try:
        first = read_settings_file(os.path.join(os.path.dirname(path), FILE)).text
        events = {} if first is None else json.loads(first)
        ours = events_in(text, path, DROID)
    except (Refused, OSError, ValueError, RecursionError):
        return None
    return not isinstance(events, dict) or not any(
        event in ours and groups and not _calls_ours(groups) for event, groups in events.items()
    )


def _calls_ours(groups: object) -> bool:
    """Whether one of the groups of hooks has our command."""
    for group in groups if isinstance(groups, list) else ():
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for hook in hooks if isinstance(hooks, list) else ():
            if isinstance(hook, dict) and is_our_shell_command(hook.get("command"), DROID.agent):
                return True
    return False
