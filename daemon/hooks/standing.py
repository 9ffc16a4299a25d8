"""Whether Runward's hook is in the settings of agents, and whether it is the one that this Runward would write."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.hooks.agents import AGENTS, files_of, home_with_settings
from runward.daemon.hooks.programs import installed, path_of
from runward.daemon.hooks.settings_file import Refused, read_settings_file

INSTALLED: Final = "installed"
OUTDATED: Final = "outdated"
UNTRUSTED: Final = "untrusted"
NOT_INSTALLED: Final = "not installed"
UNREADABLE: Final = "unreadable"


class Standing(NamedTuple):
    """How an agent's hooks stand. `events` have one, `missing` are others that the installed version knows.

    `problem` is why the settings can't be read. The hooks are `outdated` if this Runward would write others, and `untrusted` if
    the agent skips some of them until a person does what `trust` says.
    """

    agent: str
    paths: tuple[str, ...]
    state: str
    events: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str | None = None
    trust: str | None = None

    @property
    def as_json(self) -> dict[str, JsonValue]:
        """The same for a program."""
        lists = {name: [*getattr(self, name)] for name in ("paths", "events", "missing")}
        return {**self._asdict(), **lists}


def hooks_here(environment: Mapping[str, str]) -> dict[str, str]:
    """Whether each agent that is here has the hook; if its settings can't be read, why."""
    found = (standing_of(agent, environment) for agent in agents_here(environment))
    return {each.agent: each.problem or each.state for each in found}


def agents_here(environment: Mapping[str, str]) -> list[str]:
    """The agents that are here: their home, or, before they ran for the first time, only their program."""
    return [
        agent
        for agent in AGENTS
        if os.path.isdir(home_with_settings(agent, environment)) or path_of(agent, environment) is not None
    ]


def standing_of(agent: str, environment: Mapping[str, str], state: str | None = None) -> Standing:
    """How an agent's hooks stand.

    With a state directory, the agent may be asked for its version and its trust, and the hooks are compared with those that this
    Runward would write.
    """
    files = files_of(agent, environment)
    found = Standing(agent, tuple(files), NOT_INSTALLED)
    program = None if state is None else installed(agent, environment)
    try:
        for path, hooked in files.items():
            text = read_settings_file(path).text
            events = () if text is None else hooked.events(text, path)
            if events and found.state == NOT_INSTALLED:
                found = found._replace(state=INSTALLED)
            found = found._replace(events=(*found.events, *events))
            if state is None:
                continue
            known = hooked.known(program)
            missing = (each for each in known if each not in events)
            found = found._replace(missing=(*found.missing, *missing))
            if hooked.install(text, path, state, known).text != text:
                found = found._replace(state=OUTDATED)
            elif text is not None and hooked.is_trusted and hooked.is_trusted(path, text, program) is False:
                found = found._replace(trust=hooked.trust)
    except (Refused, OSError) as error:
        message = error.problem.message if isinstance(error, Refused) else error.strerror
        return found._replace(state=UNREADABLE, problem=message or "it can't be read")
    if not found.events:
        return found._replace(state=NOT_INSTALLED)
    return found if found.trust is None or found.state == OUTDATED else found._replace(state=UNTRUSTED)
