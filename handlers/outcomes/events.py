"""What can happen to outcomes before the verdict, and independently of what the files of runs say."""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.event_kinds import OfSession, Request

_LANE: Final = "artifacts:"


@dataclass(frozen=True, slots=True)
class ArtifactAddRequested(Request):
    """A person, or a program in a session, wants something stored as an artifact of the session.

    `content` is an outcome of the kind if the kind is registered, else any JSON. `file_path` is below the session's
    artifacts.
    """

    type: ClassVar[str] = "ArtifactAddRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
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


@dataclass(frozen=True, slots=True)
class OutcomesChanged(OfSession):
    """The outcome files of a running session have changed. `digest` tells one state of them from the next.

    `at` is when that was seen (Unix seconds).
    """

    type: ClassVar[str] = "OutcomesChanged"
    version: ClassVar[int] = 1

    session_key: str
    attempt: int
    at: float
    digest: str

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/outcomes/{self.digest}"


@dataclass(frozen=True, slots=True)
class ArtifactFilesNamed(OfSession):
    """Artifacts of a session were recorded whose large content is in files. `files` has their ids and paths.

    `cause` is what recorded them. The paths are below the session's artifacts.
    """

    type: ClassVar[str] = "ArtifactFilesNamed"
    version: ClassVar[int] = 1

    session_key: str
    at: float
    cause: str
    files: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        return f"{self.cause}/files"


OutcomeEvent: TypeAlias = ArtifactAddRequested | OutcomesChanged | ArtifactFilesNamed
