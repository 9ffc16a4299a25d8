"""What playbooks and agent profiles declare now, read from the operator's files when it is asked."""

from runward.config.contract import ExpectedArtifact
from runward.config.problem import Problem
from runward.config.settings import Settings
from runward.daemon.settings import NotFound, find_agent, find_playbook
from runward.handlers.facts import Declarations


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


def _name(name: str) -> str:
    """A name that a run wrote, which must not become a path of its choosing."""
    if "/" in name:
        raise NotFound(f"{name!r} is a path; a run may only name a playbook or an agent")
    return name


def _said(problems: tuple[Problem, ...]) -> str:
    return "; ".join(problem.render() for problem in problems[:3])
