"""What can be asked about contracts and what they name on the disk, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.contract import ExpectedArtifact
from runward.handlers.asking import Question
from runward.handlers.contracts.artifact_facts import (  # noqa: F401 - in the types of answers
    Produced,
    RootFacts,
    RuledPath,
)
from runward.handlers.contracts.file_hashes import RootHashes  # noqa: F401 - in the types of answers
from runward.handlers.unreadable import Unreadable  # noqa: F401 - in the types of answers


@dataclass(frozen=True, slots=True)
class DeclaredContract(Question["Declarations"]):
    """Question: what the named playbook and agent declare. Answer: `Declarations`."""

    playbook: str | None
    agent: str | None


@dataclass(frozen=True, slots=True)
class RuledPlaybook(Question["Ruled"]):
    """Question: what the settings in force apply to a session that says this about itself. Answer: `Ruled`."""

    layout: str
    cwd: str | None
    agent: str | None
    prompt: str | None


class Ruled(NamedTuple):
    """The playbook of the first `[[contracts]]` rule that matches, and where that `rule` is written.

    `agent` is the session's own if a profile has its name: another tool's agent needs no profile.
    """

    playbook: str | None = None
    agent: str | None = None
    rule: str | None = None


class Declarations(NamedTuple):
    """What was declared. `problem` says why it can't be used, which is for the operator to fix."""

    playbook: tuple[ExpectedArtifact, ...] | None
    agent: tuple[ExpectedArtifact, ...] | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ArtifactsUnder(Question["RootFacts | Unreadable"]):
    """Question: what is at these paths under `root`. Answer: `RootFacts` or `Unreadable`.

    `within` is the run's own directory if the root must not lead outside it, else "".
    """

    root: str
    within: str
    paths: tuple[str | RuledPath, ...]


@dataclass(frozen=True, slots=True)
class LegsBefore(Question["EarlyLegs | Unreadable"]):
    """Question: which of a flow's legs worked before the plan? Answer: `EarlyLegs` or `Unreadable`.

    `paths` are the legs' directories below `root`, which is in `within` unless that is "". `modified_ns` and
    `changed_ns` are the times of the plan's file.
    """

    root: str
    within: str
    paths: tuple[str, ...]
    modified_ns: int
    changed_ns: int


class EarlyLegs(NamedTuple):
    """The legs' directories that contain something older than the plan, each with one such thing, below the root."""

    found: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ProducedBy(Question["ProducedFiles | None"]):
    """Question: what an attempt had produced when it was judged. Answer: `ProducedFiles`, or None."""

    key: str
    attempt: int


class ProducedFiles(NamedTuple):
    """What an attempt had produced, with the directory of its artifacts and the run's own."""

    artifacts_path: str
    path: str
    files: tuple[Produced, ...]


@dataclass(frozen=True, slots=True)
class HashesOf(Question["RootHashes | Unreadable"]):
    """Question: the hashes of the files at these paths under `root`. Answer: `RootHashes` or `Unreadable`.

    `root` and `within` are those of `ArtifactsUnder`; as named tuples the two could be equal. Whole files are read:
    only a background job may ask.
    """

    root: str
    within: str
    paths: tuple[str, ...]


QUESTIONS: Final = (DeclaredContract, RuledPlaybook, ArtifactsUnder, LegsBefore, ProducedBy, HashesOf)
