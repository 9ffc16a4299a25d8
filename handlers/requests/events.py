"""What a person can ask of the daemon itself."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.event_kinds import OfSession, Request


@dataclass(frozen=True, slots=True)
class JobRetryRequested(Request):
    """A person wants a held job tried again. `said_by` is the owner of the inbox file."""

    type: ClassVar[str] = "JobRetryRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    job: int
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"queue:{self.job}"


@dataclass(frozen=True, slots=True)
class JobDiscardRequested(Request):
    """A person gives up a held job, which frees its lane. The reason is kept with the job."""

    type: ClassVar[str] = "JobDiscardRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    job: int
    reason: str = ""
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"queue:{self.job}"


@dataclass(frozen=True, slots=True)
class SessionCancelRequested(Request, OfSession):
    """A person wants a session's running attempt ended. It means the attempt that they saw, and no later one."""

    type: ClassVar[str] = "SessionCancelRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    session_key: str
    attempt: int
    reason: str = ""
    said_by: str = ""


@dataclass(frozen=True, slots=True)
class SessionSeenRequested(Request, OfSession):
    """A person has seen how a session's attempt ended, so it need not be reported again. Once is enough."""

    type: ClassVar[str] = "SessionSeenRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    session_key: str
    attempt: int
    said_by: str = ""

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/seen"


@dataclass(frozen=True, slots=True)
class PlayRunRequested(Request):
    """A person wants a playbook's command started, with the given values, in their directory `cwd`.

    `traceparent` is their current trace (W3C Trace Context), or "". `by_run` is the chain run in whose step they
    asked.
    """

    type: ClassVar[str] = "PlayRunRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    playbook: str
    given: dict[str, JsonValue]
    cwd: str
    traceparent: str = ""
    said_by: str = ""
    by_run: str | None = None

    @property
    def lane(self) -> str:
        return f"play:{self.request}"


@dataclass(frozen=True, slots=True)
class ScanRequested(Request):
    """A person or `daemon --once` wants every root scanned now."""

    type: ClassVar[str] = "ScanRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    said_by: str = ""

    @property
    def lane(self) -> str:
        return "scan"


@dataclass(frozen=True, slots=True)
class PruneRequested(Request):
    """A person wants the record of sessions pruned that had ended `older_than` seconds before `at`."""

    type: ClassVar[str] = "PruneRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    older_than: float
    said_by: str = ""

    @property
    def lane(self) -> str:
        return "prune"


@dataclass(frozen=True, slots=True)
class RootAcceptRequested(Request):
    """A person says that the directory `identity` (device and inode) at a root's path is that root from now on."""

    type: ClassVar[str] = "RootAcceptRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    root: str
    identity: str
    said_by: str = ""

    @property
    def lane(self) -> str:
        return "root"


RequestEvent: TypeAlias = (
    JobRetryRequested
    | JobDiscardRequested
    | SessionCancelRequested
    | SessionSeenRequested
    | PlayRunRequested
    | ScanRequested
    | PruneRequested
    | RootAcceptRequested
)
