"""What can be ordered for outcomes: rows of their table."""

from typing import NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.contracts.file_problems import FileProblem


class RecordArtifact(NamedTuple):
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


class RecordArtifactFile(NamedTuple):
    """Store the hash of an artifact's large content, or the file's problem, if the content is still at this path."""

    artifact_id: str
    file_path: str
    sha256: str | None
    size: int
    problem: FileProblem | None


OutcomeEffect: TypeAlias = RecordArtifact | RecordArtifactFile
