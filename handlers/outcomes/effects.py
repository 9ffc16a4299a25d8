"""What can be ordered for outcomes: rows of their table."""

from typing import NamedTuple, TypeAlias

from runward.config.json_value import JsonValue


class RecordArtifact(NamedTuple):
    """Keep an outcome of a session. One of the same kind and name takes its content, and keeps its id.

    `place` is its place among those that are recorded together; `is_known` says whether its kind is registered. One that
    `is_provisional` was read while the session ran: no step goes by it until the verdict has read it, too.
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


OutcomeEffect: TypeAlias = RecordArtifact
