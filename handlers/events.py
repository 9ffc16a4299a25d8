"""What can happen: every fact that Runward records, as data.

An event is recorded once, under a key that makes a second report of it harmless. Events are
past tense. Each class names its `version`; an older stored version is lifted in `UPCASTERS`
when it is read, so no handler ever sees an old shape.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from pydantic import JsonValue, TypeAdapter, ValidationError

from runward.config.flow import Leg
from runward.handlers.approvals.events import ApprovalEvent
from runward.handlers.bundle.events import BundleEvent
from runward.handlers.chains.events import ChainEvent
from runward.handlers.event_kinds import FromInbox, OfFiles, OfSession, Request
from runward.handlers.exchange.events import ExchangeEvent
from runward.handlers.notices.events import NoticeEvent
from runward.handlers.outcomes.events import OutcomeEvent
from runward.handlers.schedules.events import ScheduleEvent
from runward.handlers.shows.events import ShowEvent
from runward.handlers.starts.events import StartEvent
from runward.handlers.timers.events import TimerEvent

Evidence: TypeAlias = Literal["declared", "process_gone", "deadline", "quiet"]
"""What a conclusion rests on, strongest first."""

EVIDENCE_STRENGTH: Final[Mapping[Evidence, int]] = {
    "declared": 4,
    "process_gone": 3,
    "deadline": 2,
    "quiet": 1,
}

Status: TypeAlias = Literal["running", "completed", "failed", "timed_out", "aborted", "cancelled"]
Origin: TypeAlias = Literal["live", "history"]
HookKind: TypeAlias = Literal["started", "prompted", "turn_ended", "turn_failed", "ended"]
DeliveryState: TypeAlias = Literal["passed", "partial", "missing", "invalid"]


@dataclass(frozen=True, slots=True)
class SessionDeclaration:
    """What a run says about itself when it starts.

    `contract` is the launcher's snapshot as JSON if the run carries one; `has_snapshot` tells
    an explicit "no contract" from silence. `artifacts_path` is absolute. `cwd` and `prompt` are the
    session's working directory and its first prompt (see `clip_prompt`), if its layout knows them. `launcher` is the
    key of the launcher's session in which an agent was started; that session has the contract.
    """

    session_id: str
    layout: str
    root: str
    path: str
    kind: str
    artifacts_path: str
    playbook: str | None = None
    agent: str | None = None
    invocation_id: str | None = None
    containment: str | None = None
    has_snapshot: bool = False
    contract: JsonValue = None
    cwd: str | None = None
    prompt: str | None = None
    launcher: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptStarted(OfSession):
    """A session's files say that an attempt began; the first attempt opens the session.

    `at` is when it began (Unix seconds). `seen_over` says that the same look also found its end. A
    further attempt declares nothing: it continues under what the first one declared. `log_before` is how much of the
    session's log belongs to the attempts before it: lines, for a native run the bytes of its trace. None if nobody
    can say.
    """

    type: ClassVar[str] = "AttemptStarted"
    version: ClassVar[int] = 1

    session_key: str
    attempt: int
    at: float
    declaration: SessionDeclaration | None
    origin: Origin = "live"
    seen_over: bool = False
    log_before: int | None = None

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/started"


@dataclass(frozen=True, slots=True)
class FlowPlanned(OfSession):
    """A session's files name the legs of its flow. `digest` tells one plan from another.

    `at` is when it was planned (Unix seconds); `modified_ns` and `changed_ns` are the times of the plan's file.
    `filled` are the artifacts' directories in which something was seen before there was a plan. `seen_over` says
    that the look that found the plan also found the attempt's end.
    """

    type: ClassVar[str] = "FlowPlanned"
    version: ClassVar[int] = 1

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


@dataclass(frozen=True, slots=True)
class AttemptEnded(OfSession):
    """A session's files, its process or its deadline say that an attempt is over.

    `status` and `reason_code` are what the evidence alone amounts to, before the contract is
    compared with the disk. `at` is when it ended (Unix seconds). What is `history` was over before its root was
    first seen: it is recorded, and nothing else follows from it.
    """

    type: ClassVar[str] = "AttemptEnded"
    version: ClassVar[int] = 1

    session_key: str
    attempt: int
    at: float
    evidence: Evidence
    status: Status
    reason_code: str
    reason_summary: str
    source: Literal["daemon", "launcher", "hook", "person", "schedule"] = "daemon"
    exit_code: int | None = None
    signal: int | None = None
    origin: Origin = "live"

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/ended"


@dataclass(frozen=True, slots=True)
class SessionFinished(OfSession, OfFiles):
    """The verdict on an attempt: triggers, chains, hashes and notices depend on it.

    `produced` counts the expected files that were there, `produced_bytes` is their total size. Nothing may depend on
    a verdict whose origin is `history`.
    """

    type: ClassVar[str] = "SessionFinished"
    version: ClassVar[int] = 1

    session_key: str
    attempt: int
    at: float
    status: Status
    reason_code: str
    delivery: DeliveryState | None
    produced: int = 0
    produced_bytes: int = 0
    origin: Origin = "live"

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/finished"


@dataclass(frozen=True, slots=True)
class JournalDamaged(OfSession):
    """Runward's lines in the journal `name` of `directory` are not as they were written.

    `rows` are the numbers in the store of what must be written again, `epoch` is that of the daemon which found
    it. `lost` lines are gone or torn, of the torn ones `torn_bytes` are left. `changed` ones were changed or
    removed in place, which no crash does. `moved` ones are elsewhere in the file.
    """

    type: ClassVar[str] = "JournalDamaged"
    version: ClassVar[int] = 1

    session_key: str
    at: float
    epoch: int
    directory: str
    name: str
    rows: tuple[int, ...]
    lost: int
    torn_bytes: int
    changed: int
    moved: int

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.name}/{self.rows[0]}@{self.epoch}/damaged"


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
class HookSpoke(FromInbox):
    """An agent's hook reported what happens in a session of its layout. It only speeds things up and names the
    session; the files decide.

    `ancestors` are the processes that the hook ran under, the nearest first, each by its number and its start (clock
    ticks) in the boot `boot_id`: the agent is one of them. `launcher_session` is the id of the run that the agent was
    launched in. `source` is how the session began (`startup`, `resume`, `clear`, `compact`).
    """

    type: ClassVar[str] = "HookSpoke"
    version: ClassVar[int] = 1

    request: str
    at: float
    layout: str
    session_id: str
    kind: HookKind
    cwd: str | None = None
    transcript_path: str | None = None
    prompt: str | None = None
    source: str | None = None
    boot_id: str = ""
    ancestors: tuple[tuple[int, int], ...] = ()
    launcher_session: str | None = None
    said_by: str = ""

    @property
    def session_key(self) -> str:
        return f"{self.layout}:{self.session_id}"

    @property
    def lane(self) -> str:
        return self.session_key


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


@dataclass(frozen=True, slots=True)
class RunLaunched(OfSession):
    """A launcher is about to start a command. Only it may say how the run ended, and under which contract it runs.

    `launch` is the launch's own id, `at` its time (Unix seconds), `seal` the SHA-256 (hex) of the secret that its
    `exit.json` reveals. `launcher` and `process` are pid, start ticks and boot id of the launcher and of its command;
    `timeout` and `grace` are seconds.
    """

    type: ClassVar[str] = "RunLaunched"
    version: ClassVar[int] = 1

    session_key: str
    launch: str
    at: float
    seal: str
    launcher: tuple[int, int, str]
    process: tuple[int, int, str]
    contract: JsonValue = None
    timeout: float | None = None
    grace: float | None = None

    @property
    def key(self) -> str:
        return f"{self.session_key}#0/launched/{self.launch}"


Event: TypeAlias = (
    AttemptStarted
    | FlowPlanned
    | AttemptEnded
    | SessionFinished
    | JournalDamaged
    | JobRetryRequested
    | JobDiscardRequested
    | SessionCancelRequested
    | SessionSeenRequested
    | PlayRunRequested
    | HookSpoke
    | ScanRequested
    | PruneRequested
    | RootAcceptRequested
    | RunLaunched
    | StartEvent
    | ChainEvent
    | TimerEvent
    | ApprovalEvent
    | ScheduleEvent
    | NoticeEvent
    | OutcomeEvent
    | ShowEvent
    | ExchangeEvent
    | BundleEvent
)
"""What sessions and requests bring about, and each capability's own events."""

_CLASSES: Final[tuple[type[Event], ...]] = get_args(Event)
_ADAPTERS: Final[dict[str, TypeAdapter[Event]]] = {each.type: TypeAdapter(each) for each in _CLASSES}
_DUMPERS: Final = {kind: adapter.serializer.to_json for kind, adapter in _ADAPTERS.items()}
"""What `TypeAdapter.dump_json` calls in the end; a batch dumps hundreds of events."""
_VERSIONS: Final[dict[str, int]] = {each.type: each.version for each in _CLASSES}

MAXIMUM_DEPTH: Final = 32
"""How many events may cause one another in a row; a longer chain is a loop and is refused."""

Upcaster: TypeAlias = Callable[[dict[str, JsonValue]], dict[str, JsonValue]]
UPCASTERS: Final[dict[tuple[str, int], Upcaster]] = {}
"""From (type, version) to a function that lifts a payload to the next version."""


class UnknownEvent(ValueError):
    """A stored or submitted event has a type, version or shape that this program doesn't know."""


def dump_payload(event: Event | Request) -> str:
    """The event's fields as JSON text, all of them written out, for the store."""
    return _DUMPERS[event.type](event).decode()


def load_payload(kind: str, version: int, payload: bytes | str) -> Event:
    """The event that was stored as `payload`. Raises `UnknownEvent`."""
    adapter = _ADAPTERS.get(kind)
    if adapter is None:
        raise UnknownEvent(f"unknown event type {kind!r}")
    current = _VERSIONS[kind]
    if version > current:
        raise UnknownEvent(
            f"{kind} version {version} was written by a newer Runward (this one knows {current})"
        )
    try:
        if version == current:
            return adapter.validate_json(payload)
        fields = TypeAdapter(dict[str, JsonValue]).validate_json(payload)
        for step in range(version, current):
            fields = UPCASTERS[kind, step](fields)
        return adapter.validate_python(fields)
    except (ValidationError, KeyError) as error:
        raise UnknownEvent(f"{kind} version {version} can't be read: {error}") from error


def event_types() -> tuple[str, ...]:
    """The names of all event types, in the order of this page."""
    return tuple(_ADAPTERS)


def requests() -> tuple[type[Event], ...]:
    """The events that people ask for."""
    return tuple(each for each in _CLASSES if issubclass(each, Request))
