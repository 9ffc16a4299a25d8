"""Hooks in Claude Code's settings: whether the installed version knows their events, or drops the whole file."""

import os
from collections.abc import Iterator

from runward.daemon.configuration.agent_homes import agent_home
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.hooks import claude_code_settings
from runward.daemon.hooks.claude_code_program import events_of, installed
from runward.daemon.hooks.edit import Refused
from runward.daemon.hooks.settings_file import read_settings_file

_AGAIN = "runward hook install claude-code"


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Our hooks must be for events that the version knows. A version that meets an unknown event drops all of its
    settings."""
    environment = installation.environment
    home = agent_home(claude_code_settings.AGENT, environment, home_of(environment), working_directory())
    path = os.path.join(home, "settings.json")
    try:
        text = read_settings_file(path).text
        events = claude_code_settings.events_in(text, path) if text is not None else ()
    except Refused as refusal:
        yield Finding("warning", refusal.problem.render(), "fix the file: Claude Code can't read it, either")
        return
    if not events:
        yield Finding("ok", f"there are no Runward hooks in {path}")
        return
    patience.left()
    program = installed(environment)
    unknown = [event for event in events if event not in events_of(program)]
    who = "Claude Code (not found; its version is unknown)" if program is None else program.name
    if not unknown:
        yield Finding("ok", f"{who} knows the events of the {len(events)} hooks in {path}")
    elif program is None or program.version is None:
        found = f"{who} may not know {', '.join(unknown)}, and would then ignore all of {path}"
        yield Finding("warning", found, _AGAIN)
    else:
        found = f"{who} doesn't know {', '.join(unknown)} and therefore ignores all of {path}, including its permissions"
        yield Finding("failed", found, _AGAIN)
