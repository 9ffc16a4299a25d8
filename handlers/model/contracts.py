"""Contracts as data: effects, questions and their answers."""

from typing import NamedTuple

from runward.config.contract import ExpectedArtifact
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.files import (  # noqa: F401 - in the types of answers
    FileProblem,
    Produced,
    RootFacts,
    RootHashes,
    RuledPath,
    Unreadable,
)


class RecordedFile(NamedTuple):
    """A produced file with its hash (hex), or with the problem why it has none. A `changed` file has both.

    `size` in bytes and `modified_ns` are those of what was hashed, else those from when it was verified.
    """

    id: str
    path: str
    size: int
    modified_ns: int
    sha256: str | None
    problem: FileProblem | None


class RecordFiles(Effect, frozen=True):
    """Store the hashes of what an attempt produced, one for each file."""

    key: str
    attempt: int
    files: tuple[RecordedFile, ...]


class DeclaredContract(Question["Declarations"], frozen=True):
    """Question: what the named playbook and agent declare. Answer: `Declarations`."""

    playbook: str | None
    agent: str | None


class RuledPlaybook(Question["Ruled"], frozen=True):
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


class ArtifactsUnder(Question["RootFacts | Unreadable"], frozen=True):
    """Question: what is at these paths under `root`. Answer: `RootFacts` or `Unreadable`.

    `within` is the run's own directory if the root must not lead outside it, else "".
    """

    root: str
    within: str
    paths: tuple[str | RuledPath, ...]


class LegsBefore(Question["EarlyLegs | Unreadable"], frozen=True):
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

    older: tuple[tuple[str, str], ...]


class ProducedBy(Question["ProducedFiles | None"], frozen=True):
    """Question: what an attempt had produced when it was judged. Answer: `ProducedFiles`, or None."""

    key: str
    attempt: int


class ProducedFiles(NamedTuple):
    """What an attempt had produced, with the directory of its artifacts and the run's own."""

    artifacts_path: str
    path: str
    files: tuple[Produced, ...]


class HashesOf(Question["RootHashes | Unreadable"], frozen=True):
    """Question: the hashes of the files at these paths under `root`. Answer: `RootHashes` or `Unreadable`.

    `root` and `within` are those of `ArtifactsUnder`; as named tuples the two could be equal. Whole files are read:
    only a background job may ask.
    """

    root: str
    within: str
    paths: tuple[str, ...]
