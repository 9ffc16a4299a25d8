"""What can be asked about outcomes, and the answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.asking import Question
from runward.handlers.unreadable import Unreadable  # noqa: F401 - in the types of answers


class OutcomeFile(NamedTuple):
    """A file that may hold an outcome: its path below the run's or the artifacts' directory, and its content.

    `content` is None if the file is too large. A large report was read already: `report` has the outcomes that it can
    become, by kind, or says what is wrong with it.
    """

    path: str
    content: bytes | None
    report: "Mapping[str, JsonValue] | str | None" = None


class BeingRead(NamedTuple):
    """The answer while large reports are read: for so many seconds already."""

    seconds: float


@dataclass(frozen=True, slots=True)
class OutcomesIn(Question["tuple[OutcomeFile, ...] | BeingRead | Unreadable"]):
    """Question: which files of a run contain outcomes. Answer: the files in the order of their times, `BeingRead` or
    `Unreadable`.

    `path` is the run's directory, `artifacts_path` that of its artifacts, below which `named` are: files that a
    contract expects to hold outcomes.
    """

    path: str
    artifacts_path: str
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalMessageOf(Question["str | Unreadable | None"]):
    """Question: the agent's last message, in the session of this layout whose log is at `path`. Answer: the text.

    None if it said nothing, or something that was not its last word. `Unreadable` if the log can't be read now.
    """

    layout: str
    path: str


class ArtifactFile(NamedTuple):
    """Where the large content of an artifact is, below the session's artifacts."""

    artifact_id: str
    path: str


@dataclass(frozen=True, slots=True)
class ArtifactFilesOf(Question["tuple[ArtifactFile, ...]"]):
    """Question: which artifacts of a session have their content in files? Answer: an `ArtifactFile` each, by their
    ids."""

    session_key: str


@dataclass(frozen=True, slots=True)
class LatestOutcomeOf(Question["Mapping[str, JsonValue] | None"]):
    """Question: the outcome of a registered kind that a session produced last. Answer: the object, or None."""

    session_key: str


QUESTIONS: Final = (OutcomesIn, FinalMessageOf, ArtifactFilesOf, LatestOutcomeOf)
