"""Contracts as data: events, effects, questions and their answers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from runward.config.contract import ExpectedArtifact
from runward.config.flow import Leg
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, OfSession
from runward.handlers.model.unreadable import Unreadable  # noqa: F401 - in the types of answers

if TYPE_CHECKING:
    from runward.config.artifact_rules import ArtifactRules


MOST_GIB: Final = 8
"""The most that is hashed for one job, in GiB, holes included.

A file of a terabyte that is one hole costs nothing to make, so sizes on their own bound no work.
"""

HashState: TypeAlias = Literal[
    "hashed", "absent", "empty", "not_regular", "outside", "denied", "changing", "unreadable", "too_large"
]


class FileHash(NamedTuple):
    """The result of hashing one file.

    `size` in bytes and `modified_ns` are those of what was hashed, `sha256` is in hex. `changing` means that the file
    was written to meanwhile.
    """

    state: HashState
    size: int = 0
    modified_ns: int = 0
    sha256: str | None = None


class RootHashes(NamedTuple):
    """The answer to `HashesOf`: whether the root is a directory, and the result for each path."""

    exists: bool
    files: tuple[FileHash, ...] = ()


FileProblem: TypeAlias = Literal[
    "gone",
    "empty",
    "not_regular",
    "outside",
    "denied",
    "unreadable",
    "changing",
    "changed",
    "too_large",
]
"""A `changed` file has a hash, but not that of what was verified. The others have none."""

MEANINGS: Final[Mapping[str, str]] = {
    "gone": "is gone",
    "empty": "is empty",
    "not_regular": "is not a regular file",
    "outside": "leads outside the root",
    "denied": "is not readable by the daemon",
    "unreadable": "can't be read",
    "changing": "was written to each time while it was hashed",
    "changed": "was changed between its verification and its hash",
    "too_large": f"is not hashed: the limit is {MOST_GIB} GiB for one attempt",
}


FileState: TypeAlias = Literal[
    "file", "absent", "empty", "not_regular", "outside", "denied", "unfit", "excused"
]
"""`unfit` means present, but breaking a rule of its entry. `excused` means absent, and allowed to be."""


class RuleFact(NamedTuple):
    """Whether one rule of an entry is fulfilled, named by the entry's key, and for which file.

    `reason` says what was found, `line` where in the file, counted from 1.
    """

    rule: str
    path: str
    holds: bool
    reason: str
    line: int | None = None


class Match(NamedTuple):
    """One file that a glob found: its path below the root, its size in bytes and its modification time (ns)."""

    path: str
    size: int
    modified_ns: int


class FileFact(NamedTuple):
    """What was found at one path: its size in bytes and modification time (ns) if it is a file.

    An entry with rules also has their results, and an entry with a glob the files that it found. If it is absent, `near` is
    the path of a file that is nearly it, from the root.
    """

    state: FileState
    size: int = 0
    modified_ns: int = 0
    rules: tuple[RuleFact, ...] = ()
    matches: tuple[Match, ...] = ()
    near: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether nothing is missing."""
        return self.state in ("file", "excused")


class RuledPath(NamedTuple):
    """An entry with rules, to be looked at. A `fresh` file was modified after `since_ns`."""

    path: str
    rules: "ArtifactRules"
    since_ns: int

    @property
    def file(self) -> str | None:
        """The path of the one file that it is about. None for a glob or an outcome."""
        return self.path if self.rules.path is None else None


class RootFacts(NamedTuple):
    """The answer to `ArtifactsUnder`: whether the root is a directory, and a fact for each path."""

    exists: bool
    files: tuple[FileFact, ...] = ()

    def for_each(self, count: int) -> tuple[FileFact, ...]:
        """A fact for each of `count` entries. Without a directory, no file is there."""
        return self.files if self.exists else self.files or (FileFact("absent"),) * count


class Produced(NamedTuple):
    """An expected artifact that was there: a regular file with `size` bytes (at least one); its time in ns."""

    id: str
    path: str
    size: int
    modified_ns: int = 0


class FlowPlanned(OfSession, Event, frozen=True):
    """A session's files name the legs of its flow. `digest` tells one plan from another.

    `at` is when it was planned (Unix seconds); `modified_ns` and `changed_ns` are the times of the plan's file.
    `filled` are the artifacts' directories in which something was seen before there was a plan. `seen_over` says
    that the look that found the plan also found the attempt's end.
    """

    session_key: str
    attempt: int
    at: float
    digest: str
    legs: tuple[Leg, ...]
    modified_ns: int
    changed_ns: int
    filled: tuple[str, ...] = ()
    seen_over: bool = False

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/planned/{self.digest}"


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

    found: tuple[tuple[str, str], ...]


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
