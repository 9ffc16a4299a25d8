"""Whether Runward's hook is in the settings of agents, and whether it is the one that this Runward would write."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.hooks.agents import AGENTS, home_with_settings, program_of, settings_path
from runward.daemon.hooks.settings_file import Refused, read_settings_file

INSTALLED: Final = "installed"
OUTDATED: Final = "outdated"
NOT_INSTALLED: Final = "not installed"
UNREADABLE: Final = "unreadable"


class Standing(NamedTuple):
    """How an agent's hooks stand. `events` have one, `missing` are others that the installed version knows.

    `problem` is why the settings can't be read. The hooks are `outdated` if this Runward would write others.
    """

    agent: str
    path: str
    state: str
    events: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def as_json(self) -> dict[str, JsonValue]:
        """The same for a program."""
        return {**self._asdict(), "events": [*self.events], "missing": [*self.missing]}


def hooks_here(environment: Mapping[str, str]) -> dict[str, str]:
    """Whether each agent whose home is here has the hook; if its settings can't be read, why."""
    found = (standing_of(agent, environment) for agent in agents_here(environment))
    return {each.agent: each.problem or each.state for each in found}


def agents_here(environment: Mapping[str, str]) -> list[str]:
    """The agents whose home is here."""
    return [agent for agent in AGENTS if os.path.isdir(home_with_settings(agent, environment))]


def standing_of(agent: str, environment: Mapping[str, str], state: str | None = None) -> Standing:
    """How an agent's hooks stand.

    With a state directory, the agent may be asked for its version, and the hooks are compared with those that this Runward
    would write.
    """
    path, hooked = settings_path(agent, environment), AGENTS[agent]
    found = Standing(agent, path, NOT_INSTALLED)
    try:
        text = read_settings_file(path).text
        if text is not None and (events := hooked.events(text, path)):
            found = found._replace(state=INSTALLED, events=events)
        if state is None:
            return found
        known = hooked.known(program_of(agent, environment))
        found = found._replace(missing=tuple(each for each in known if each not in found.events))
        if found.events and hooked.install(text, path, state, known).text != text:
            found = found._replace(state=OUTDATED)
    except (Refused, OSError) as error:
        message = error.problem.message if isinstance(error, Refused) else error.strerror
        return found._replace(state=UNREADABLE, problem=message or "it can't be read")
    return found
