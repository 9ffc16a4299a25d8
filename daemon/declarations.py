"""What the operator's files declare now: playbooks, agent profiles, and the rules of the settings."""

from typing import Final

from runward.config.contract import ExpectedArtifact
from runward.config.contract_rules import rule_for
from runward.config.playbook import PLAYBOOK_SUFFIX
from runward.config.problem import Problem
from runward.config.settings import Settings
from runward.daemon.settings import NotFound, find_agent, find_playbook
from runward.handlers.facts import Declarations, Play, Ruled, RuledPlaybook

FILE_ENDINGS: Final = (PLAYBOOK_SUFFIX, ".md")
"""What commands take for a file, and look for where they were started."""


class Declarer:
    """Answers what a playbook and an agent declare under the settings in force. Used in threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def use(self, settings: Settings) -> None:
        """Answer under these settings from now on."""
        self._settings = settings

    def __call__(self, playbook: str | None, agent: str | None) -> Declarations:
        """What they declare; a missing or wrong file is the operator's to mend, and said so."""
        expected: tuple[ExpectedArtifact, ...] | None = None
        defaults: tuple[ExpectedArtifact, ...] | None = None
        try:
            if playbook is not None:
                read = find_playbook(self._settings, _name(playbook))
                if read.value is None:
                    return Declarations(None, None, _said(read.errors))
                expected, agent = read.value.artifacts, agent or read.value.agent
            if agent is not None:
                profile = find_agent(self._settings, _name(agent))
                if profile.value is None:
                    return Declarations(None, None, _said(profile.errors))
                defaults = profile.value.artifact_defaults
        except NotFound as error:
            return Declarations(None, None, str(error))
        return Declarations(expected, defaults)

    def play(self, name: str) -> Play:
        """What the playbook of this name would start, and in which root; or what the operator must mend first."""
        settings = self._settings
        root = settings.launch_root
        if root is None:
            return Play(
                None, problem="no root of the settings has the layout 'native', for new runs to go to"
            )
        defaults: tuple[ExpectedArtifact, ...] | None = None
        try:
            read = find_playbook(settings, _name(name))
            if read.value is None:
                return Play(None, problem=_said(read.errors))
            agent = read.value.agent
            if agent is not None:
                profile = find_agent(settings, _name(agent))
                if profile.value is None:
                    return Play(None, problem=_said(profile.errors))
                defaults = profile.value.artifact_defaults
        except NotFound as error:
            return Play(None, problem=str(error))
        return Play(read.value, agent, defaults, root.name, root.path)

    def ruled(self, session: RuledPlaybook) -> Ruled:
        """What a session falls under by the `[[contracts]]` rules."""
        settings = self._settings
        rule = rule_for(settings.contracts, session.layout, session.cwd, session.agent, session.prompt)
        agent = session.agent
        if agent is not None:
            try:
                find_agent(settings, _name(agent))
            except NotFound:
                agent = None
        return Ruled(agent=agent) if rule is None else Ruled(rule.playbook, agent, rule.named_at.origin)


def _name(name: str) -> str:
    """A name that isn't the operator's own word here, and must not become a path of somebody's choosing."""
    if "/" in name or name.endswith(FILE_ENDINGS):
        raise NotFound(f"{name!r} is a file; only the name of a playbook or an agent may stand here")
    return name


def _said(problems: tuple[Problem, ...]) -> str:
    return "; ".join(problem.render() for problem in problems[:3])
