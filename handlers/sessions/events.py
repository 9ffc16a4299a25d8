"""What can happen to sessions: their attempts begin and end, and what hooks and launchers say of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.event_kinds import FromInbox, OfFiles, OfSession

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
class AttemptEnded(OfSession):
    """A session's files, its process or its deadline say that an attempt is over.

    `status` and `reason_code` are what the evidence alone amounts to, before the contract is
    compared with the disk. `at` is when it ended (Unix seconds). What is `history` was over before its root was
    first seen: it is recorded, and nothing else follows from it. If a process that is gone ended it, `at` is the last
    moment at which that was known to be alive, and `gone_by` is when it was first found gone.
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
    gone_by: float | None = None

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
class HookSpoke(FromInbox):
    """An agent's hook reported what happens in a session of its layout. It only speeds things up and names the
    session; the files decide.

    `ancestors` are the processes that the hook ran under, the nearest first, each by its number and its start (clock
    ticks) in the boot `boot_id`: the agent is one of them. `launcher_session` is the id of the run that the agent was
    launched in. `source` is how the session began (`startup`, `resume`, `clear`, `compact`). `machine` (its machine id)
    and `namespace` (the inode of a PID namespace) say where the numbers are valid; older hooks don't say it.
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
    machine: str = ""
    namespace: int | None = None

    @property
    def session_key(self) -> str:
        return f"{self.layout}:{self.session_id}"

    @property
    def lane(self) -> str:
        return self.session_key


@dataclass(frozen=True, slots=True)
class RunLaunched(OfSession):
    """A launcher is about to start a command. Only it may say how the run ended, and under which contract it runs.

    `launch` is the launch's own id, `at` its time (Unix seconds), `seal` the SHA-256 (hex) of the secret that its
    `exit.json` reveals. `launcher` and `process` are pid, start ticks and boot id of the launcher and of its command;
    `timeout` and `grace` are seconds. `cgroup` is the directory of the run's cgroup, if it has one.
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
    cgroup: str | None = None

    @property
    def key(self) -> str:
        return f"{self.session_key}#0/launched/{self.launch}"


SessionEvent: TypeAlias = AttemptStarted | AttemptEnded | SessionFinished | HookSpoke | RunLaunched
