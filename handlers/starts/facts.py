"""What can be asked about what may be started, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.contract import ExpectedArtifact
from runward.config.playbook import Playbook
from runward.handlers.asking import Question


@dataclass(frozen=True, slots=True)
class PlayOf(Question["Play"]):
    """Question: what a playbook of this name would start now, and in which root. Answer: `Play`."""

    playbook: str


class Play(NamedTuple):
    """What can be started: the playbook, its agent with the defaults that it declares, and the root for the run.

    `problem` says why nothing can be started, which is for the operator to fix. The rest means nothing then.
    """

    playbook: Playbook | None
    agent: str | None = None
    defaults: tuple[ExpectedArtifact, ...] | None = None
    root_name: str = ""
    root_path: str = ""
    problem: str | None = None
    shell: str | None = None


@dataclass(frozen=True, slots=True)
class ActionOf(Question["Play"]):
    """Question: what would running this action start, and where? Answer: `Play`, with the text for `sh -c` if a shell
    runs it."""

    action: str


QUESTIONS: Final = (PlayOf, ActionOf)
