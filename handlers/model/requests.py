"""Requests to the daemon as data: events, effects, questions and their answers."""

from typing import Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, OfSession, Request
from runward.handlers.model.sessions import RunProcesses


class JobRetryRequested(Request, frozen=True):
    """A person wants a held job tried again. `said_by` is the owner of the inbox file."""

    job: int
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"queue:{self.job}"


class JobDiscardRequested(Request, frozen=True):
    """A person gives up a held job, which frees its lane. The reason is kept with the job."""

    job: int
    reason: str = ""
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"queue:{self.job}"


class SessionCancelRequested(OfSession, Request, frozen=True):
    """A person wants a session's running attempt ended. It means the attempt that they saw, and no later one."""

    session_key: str
    attempt: int
    reason: str = ""
    said_by: str = ""


class SessionSeenRequested(OfSession, Request, frozen=True):
    """A person has seen how a session's attempt ended, so it need not be reported again. Once is enough."""

    session_key: str
    attempt: int
    said_by: str = ""

    @property
    def key(self) -> str:
        # Once is enough, no matter how many people have seen it: so the key is not that of the request.
        return f"{self.session_key}#{self.attempt}/seen"


class PlayRunRequested(Request, frozen=True):
    """A person wants a playbook's command started, with the given values, in their directory `cwd`.

    `traceparent` is their current trace (W3C Trace Context), or "". `by_run` is the chain run in whose step they
    asked.
    """

    playbook: str
    given: dict[str, JsonValue]
    cwd: str
    traceparent: str = ""
    said_by: str = ""
    by_run: str | None = None

    @property
    def lane(self) -> str:
        return f"play:{self.request}"


class ScanRequested(Request, frozen=True):
    """A person or `daemon --once` wants every root scanned now."""

    said_by: str = ""

    @property
    def lane(self) -> str:
        return "scan"


class PruneRequested(Request, frozen=True):
    """A person wants the record of sessions pruned that had ended `older_than` seconds before `at`."""

    older_than: float
    said_by: str = ""

    @property
    def lane(self) -> str:
        return "prune"


class RootAcceptRequested(Request, frozen=True):
    """A person says that the directory `identity` (device and inode) at a root's path is that root from now on."""

    root: str
    identity: str
    said_by: str = ""

    @property
    def lane(self) -> str:
        return "root"


class RecordMoved(Event, frozen=True):
    """The record was restored at other paths. `moves` are the old directories with the new ones. What was recorded before
    has the old paths.

    `epoch` is the one that the restore began.
    """

    at: float
    epoch: int
    moves: tuple[tuple[str, str], ...]
    said_by: str = ""

    @property
    def key(self) -> str:
        return f"record#{self.epoch}/moved"

    @property
    def lane(self) -> str:
        return "record"


class ReleaseJob(Effect, frozen=True):
    """Put a held job back into its lane, or give it up, which frees the lane."""

    job: int
    state: Literal["waiting", "discarded"]
    reason: str


class CancelRun(Effect, frozen=True):
    """Have the launcher of an attempt in `directory` end it, or its process if no launcher is left.

    `attempt` identifies the pending order. The processes are signalled only if they are still the ones recorded.
    """

    key: str
    attempt: int
    directory: str
    processes: RunProcesses
    said_by: str
    reason: str


class ScanRoots(Effect, frozen=True):
    """Have every root scanned soon. Safe to repeat, so it needs no row in the outbox."""


class AcceptRoot(Effect, frozen=True):
    """Let a root be the directory `identity` (device and inode) from now on."""

    root: str
    identity: str


class PruneSessions(Effect, frozen=True):
    """Have the record of the sessions that ended before a moment (Unix seconds) pruned, in the background."""

    before: float
    said_by: str


class JobStateOf(Question["JobState | None"], frozen=True):
    """Question: the state of a job. Answer: `JobState`, or None if there is no such job."""

    job: int


class JobState(NamedTuple):
    """The state of a job: `waiting`, `running`, `done`, `held` or `discarded`. Its event is None if it can't be read."""

    state: str
    event: Event | None = None
