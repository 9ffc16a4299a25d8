"""Outcomes as data: events, effects, questions and their answers."""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect, Effects
from runward.handlers.model.events import Event, OfSession, Request
from runward.handlers.model.files import (
    FileProblem,
    Unreadable,  # noqa: F401 - in the types of answers
)

if TYPE_CHECKING:
    from runward.config.outcome import CheckedOutcome


_LANE: Final = "artifacts:"


class ArtifactAddRequested(Request, frozen=True):
    """A person, or a program in a session, wants something stored as an artifact of the session.

    `content` is an outcome of the kind if the kind is registered, else any JSON. `file_path` is below the session's
    artifacts.
    """

    session_key: str
    kind: str
    name: str
    content: JsonValue = None
    file_path: str | None = None
    said_by: str = ""

    @property
    def lane(self) -> str:
        return lane(self.session_key)


def lane(session_key: str) -> str:
    """The lane where additions to a session wait until the session is known. Its own lane makes it known."""
    return f"{_LANE}{session_key}"


class OutcomesChanged(OfSession, Event, frozen=True):
    """The outcome files of a running session have changed. `digest` tells one state of them from the next.

    `at` is when that was seen (Unix seconds).
    """

    session_key: str
    attempt: int
    at: float
    digest: str

    @property
    def key(self) -> str:
        # The digest is of the files' signatures: each state of them is reported once.
        return f"{self.session_key}#{self.attempt}/outcomes/{self.digest}"


class ArtifactFilesNamed(OfSession, Event, frozen=True):
    """Artifacts of a session were recorded whose large content is in files. `files` has their ids and paths.

    `cause` is what recorded them. The paths are below the session's artifacts.
    """

    session_key: str
    at: float
    cause: str
    files: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        return f"{self.cause}/files"


class RecordArtifact(Effect, frozen=True):
    """Store an outcome of a session. A later one with the same kind and name replaces its content, and keeps its id.

    `place` is its place among those that are recorded together; `is_known` says whether its kind is registered. One
    that `is_provisional` was read while the session ran: no step relies on it until the verdict has read it, too. With
    `names_file` the `file_path` is where its large content is, below the session's artifacts; else where it was read.
    """

    session_key: str
    at: float
    kind: str
    name: str
    content: JsonValue
    summary: str
    passed: bool | None
    file_path: str | None
    is_known: bool
    place: int
    is_provisional: bool = False
    names_file: bool = False


class RecordArtifactFile(Effect, frozen=True):
    """Store the hash of an artifact's large content, or the file's problem, if the content is still at this path."""

    artifact_id: str
    file_path: str
    sha256: str | None
    size: int
    problem: FileProblem | None


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


class OutcomesIn(Question["tuple[OutcomeFile, ...] | BeingRead | Unreadable"], frozen=True):
    """Question: which files of a run contain outcomes. Answer: the files in the order of their times, `BeingRead` or
    `Unreadable`.

    `path` is the run's directory, `artifacts_path` that of its artifacts, below which `named` are: files that a
    contract expects to hold outcomes.
    """

    path: str
    artifacts_path: str
    named: tuple[str, ...] = ()


class FinalMessageOf(Question["str | Unreadable | None"], frozen=True):
    """Question: the agent's last message, in the session of this layout whose log is at `path`. Answer: the text.

    None if it said nothing, or something that was not its last word. `Unreadable` if the log can't be read now.
    """

    layout: str
    path: str


class ArtifactFile(NamedTuple):
    """Where the large content of an artifact is, below the session's artifacts."""

    artifact_id: str
    path: str


class ArtifactFilesOf(Question["tuple[ArtifactFile, ...]"], frozen=True):
    """Question: which artifacts of a session have their content in files? Answer: an `ArtifactFile` each, by their
    ids."""

    session_key: str


class LatestOutcomeOf(Question["Mapping[str, JsonValue] | None"], frozen=True):
    """Question: the outcome of a registered kind that a session produced last. Answer: the object, or None."""

    session_key: str


def outcome_among(outcomes: Effects) -> JsonValue:
    """The last outcome of a registered kind that these effects keep."""
    known = [each for each in outcomes if isinstance(each, RecordArtifact) and each.is_known]
    return known[-1].content if known else None


class ReadOutcome(NamedTuple):
    """An outcome, its name, and the file that it came from.

    Without `is_file` it came from what `file` describes.
    """

    name: str
    file: str
    outcome: "CheckedOutcome"
    is_file: bool = True


def artifact_id(session_key: str, kind: str, name: str) -> str:
    """The id of a session's outcome of this kind and name: always the same."""
    digest = hashlib.sha256(f"{session_key}\n{kind}\n{name}".encode(errors="replace"))
    return f"ar_{digest.hexdigest()[:12]}"
