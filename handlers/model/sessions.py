"""Sessions as data: events, effects, questions and their answers."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect, Effects, Emit
from runward.handlers.model.events import Event, FromInbox, OfFiles, OfSession
from runward.handlers.model.files import (
    DeliveryState,
    Produced,
    Signature,
    Unreadable,  # noqa: F401 - in the types of answers
)
from runward.handlers.model.processes import RecordedProcess, Whereabouts


class Document(NamedTuple):
    """A file of the run directory: its bytes if it could be read, else the reason why not.

    `modified_at` is its modification time in Unix seconds.
    """

    name: str
    signature: Signature
    modified_at: float
    content: bytes = b""
    problem: str | None = None


class Complaint(NamedTuple):
    """An agent's file is malformed: where, what is wrong, and what to do."""

    file: str
    line: int | None
    message: str
    fix: str | None


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


SUBAGENT: Final = "subagent"
"""The `kind` of a session that another one ordered. It is judged for itself, and nobody is told of its end."""


class SessionDeclaration(Struct, frozen=True):
    """What a run says about itself when it starts.

    `contract` is the launcher's snapshot as JSON if the run carries one; `has_snapshot` tells
    an explicit "no contract" from silence. `artifacts_path` is absolute. `cwd` and `prompt` are the
    session's working directory and its first prompt (see `clip_prompt`), if its layout knows them. `launcher` is the
    key of the session that this one is part of, and that has the contract: of the run in which an agent was started, or
    of the agent that a sub-agent works for.
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


class AttemptStarted(OfSession, Event, frozen=True):
    """A session's files say that an attempt began; the first attempt opens the session.

    `at` is when it began (Unix seconds). `seen_over` says that the same look also found its end. A
    further attempt declares nothing: it continues under what the first one declared. `log_before` is how much of the
    session's log belongs to the attempts before it: lines, for a native run the bytes of its trace. None if
    that is not known.
    """

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


class AttemptEnded(OfSession, Event, frozen=True):
    """A session's files, its process or its deadline say that an attempt is over.

    `status` and `reason_code` are what the evidence alone amounts to, before the contract is
    compared with the disk. `at` is when it ended (Unix seconds). What is `history` was over before its root was
    first seen: it is recorded, and nothing else follows from it. If a process that is gone ended it, `at` is the last
    moment at which that was known to be alive, and `gone_by` is when it was first found gone.
    """

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
        # The key has no time and no evidence: whatever ends an attempt, it ends once.
        return f"{self.session_key}#{self.attempt}/ended"


class SessionFinished(OfSession, OfFiles, Event, frozen=True):
    """The verdict on an attempt: triggers, chains, hashes and notices depend on it.

    `produced` counts the expected files that were there, `produced_bytes` is their total size. Nothing may depend on
    a verdict whose origin is `history`. `has_bundle` is false if the settings want no bundle of it and none was begun.
    Verdicts of earlier versions don't say it: there, the bundle's job finds out.
    """

    session_key: str
    attempt: int
    at: float
    status: Status
    reason_code: str
    delivery: DeliveryState | None
    produced: int = 0
    produced_bytes: int = 0
    origin: Origin = "live"
    has_bundle: bool = True

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/finished"


class HookSpoke(FromInbox, frozen=True):
    """An agent's hook reported what happens in a session of its layout. It only speeds things up and names the
    session; the files decide.

    `ancestors` are the processes that the hook ran under, the nearest first, each by its number and its start (clock
    ticks) in the boot `boot_id`: the agent is one of them. `launcher_session` is the id of the run that the agent was
    launched in. `source` is how the session began (`startup`, `resume`, `clear`, `compact`). `machine` (its machine id)
    and `namespace` (the inode of a PID namespace) say where the numbers are valid; older hooks don't say it.
    """

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


class RunLaunched(OfSession, Event, frozen=True):
    """A launcher is about to start a command. Only it may say how the run ended, and under which contract it runs.

    `launch` is the launch's own id, `at` its time (Unix seconds), `seal` the SHA-256 (hex) of the secret that its
    `exit.json` reveals. `launcher` and `process` are pid, start ticks and boot id of the launcher and of its command;
    `timeout` and `grace` are seconds. `cgroup` is the directory of the run's cgroup, if it has one. `ticket` is what the
    launcher holds until this run is over, if it carries out others afterwards.
    """

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
    ticket: str = ""

    @property
    def key(self) -> str:
        # The run may not be known as a session yet, so the key has no attempt. The launcher repeats its record before
        # the end, and the two are one event.
        return f"{self.session_key}#0/launched/{self.launch}"


class SessionOf(Question["Session | None"], frozen=True):
    """Question: the session's row as the jobs before this one left it. Answer: `Session` or None."""

    key: str


class Session(NamedTuple):
    """A session as handlers see it."""

    key: str
    session_id: str
    layout: str
    path: str
    status: Status
    attempt: int
    artifacts_path: str
    contract_json: str | None
    playbook: str | None
    agent: str | None
    started_at: float
    origin: Origin
    contract_problem: str | None = None
    folded: bool = False
    contract_basis: str | None = None
    invocation_id: str | None = None
    reason_code: str | None = None
    kind: str = "agent"


class ProcessesOf(Question["RunProcesses"], frozen=True):
    """Question: which processes the files of a session's run name. Answer: `RunProcesses`."""

    key: str


class RunProcesses(Struct, frozen=True):
    """The processes and the host that a run's files name. Each is None if not named."""

    launcher: RecordedProcess | None = None
    process: RecordedProcess | None = None
    host: str | None = None
    is_recorded: bool = False
    """Whether the launcher itself recorded them, and not only the run's files."""
    cgroup: str | None = None
    """The directory of the run's cgroup, if its launcher recorded one."""


class CancellationOf(Question["Cancellation | None"], frozen=True):
    """Question: did a person cancel this attempt? Answer: `Cancellation`, or None."""

    key: str
    attempt: int


class Cancellation(NamedTuple):
    """A person's order to end an attempt. Its process was asked to end, or still has to be if `is_owed`.

    `reason` may be empty. With a `timeout` (seconds) it is not a person's: the daemon ended the run after its time.
    """

    said_by: str
    reason: str
    is_owed: bool = False
    timeout: float | None = None


class AgeOf(Question["float | None"], frozen=True):
    """Question: how long a launched run has lasted, by the machine's clock. Answer: seconds since its command started.

    None if neither the launcher nor the command is alive.
    """

    launcher: RecordedProcess
    process: RecordedProcess


class RootOf(Question["CoveringRoot | None"], frozen=True):
    """Question: which root watches the file at `path`, of a session of this layout? Answer: `CoveringRoot`, or None."""

    layout: str
    path: str


class CoveringRoot(NamedTuple):
    """A root by its name."""

    name: str


class DeclaredToHook(Question["HookDeclaration | None"], frozen=True):
    """Question: what was declared for a session when its hook reported its first prompt? Answer: `HookDeclaration`, or
    None."""

    key: str


class HookDeclaration(NamedTuple):
    """What was declared when a session's hook spoke, at this time (Unix seconds): playbook and contract snapshot.

    `problem` says why there is no contract, `rule` is the place of the rule that named the playbook.
    """

    at: float
    playbook: str | None = None
    contract_json: str | None = None
    problem: str | None = None
    rule: str | None = None


class LinkedSessionsOf(Question["LinkedSessions"], frozen=True):
    """Question: which foreign sessions were started in this launcher's run? Answer: `LinkedSessions`."""

    launcher: str


class LinkedSession(NamedTuple):
    """The state of an agent's session that was started in a launcher's run."""

    key: str
    status: Status
    reason_code: str
    reason_summary: str


class LinkedSessions(NamedTuple):
    """The answer to `LinkedSessionsOf`, in the order of their keys.

    `announced` are the keys of those whose hooks named the launcher's run, and whose files weren't read yet.
    With `may_be_more` there are hook messages that nobody has processed yet.
    """

    sessions: tuple[LinkedSession, ...] = ()
    announced: tuple[str, ...] = ()
    may_be_more: bool = False


class LaunchOf(Question["Launch | None"], frozen=True):
    """Question: what the launcher of a session's run recorded last. Answer: `Launch`, or None without a launcher."""

    key: str


class Launch(NamedTuple):
    """What a launcher recorded before it started its command.

    `seal` is the SHA-256 (hex) of the secret that its `exit.json` reveals. `at` is in Unix seconds.
    """

    at: float
    seal: str
    contract_json: str | None
    launcher: RecordedProcess
    process: RecordedProcess
    timeout: float | None = None
    cgroup: str | None = None


class LastChangeOf(Question["LastChange | Unreadable | None"], frozen=True):
    """Question: when did the files in a native run's directory change last? Answer: `LastChange`, `Unreadable`, or None.

    None without an `exit.json`. What Runward writes there does not count.
    """

    path: str


class LastChange(NamedTuple):
    """When a file changed last, and when `exit.json` did (Unix seconds of the change of the inode, which no run sets)."""

    newest: float
    ended: float


class WorkingDirectoryOf(Question["str | None"], frozen=True):
    """Question: in which directory does a session work? Answer: the absolute path, or None if its files don't say."""

    key: str


ContractBasis: TypeAlias = Literal["launcher", "hook", "first_look", "late"]
Source: TypeAlias = Literal["daemon", "launcher", "hook", "person", "schedule"]


class EvidenceRef(NamedTuple):
    """One thing that a conclusion rests on."""

    kind: Literal["expected_artifact", "artifact", "file", "exit", "process", "event"]
    id: str
    label: str


class Reason(NamedTuple):
    """Why a status is as it is: a stable code of three dotted parts, a sentence, the evidence."""

    code: str
    summary: str
    evidence_refs: tuple[EvidenceRef, ...] = ()


class OpenSession(Effect, frozen=True):
    """Insert the session with its contract, and its first attempt as `running`."""

    key: str
    at: float
    declaration: SessionDeclaration
    origin: Origin
    reason: Reason
    source: Source
    contract_json: str | None
    contract_basis: ContractBasis | None
    contract_problem: str | None


class OpenAttempt(Effect, frozen=True):
    """Open the session's next attempt; it must be the one after `attempt - 1`, which must be over."""

    key: str
    attempt: int
    at: float
    replaces: Status
    reason: Reason
    source: Source


class FoldContract(Effect, frozen=True):
    """Replace the session's contract by the one that includes the legs of a flow, once, while its first attempt runs.

    `contract_basis` counts if the session had no contract before.
    """

    key: str
    contract_json: str | None
    contract_basis: ContractBasis | None


class HoldToLaunch(Effect, frozen=True):
    """Replace the contract that a session's files declared by the one that its launcher recorded, once."""

    key: str
    contract_json: str | None
    problem: str


class RefuseFold(Effect, frozen=True):
    """Record with the session why a plan's legs are not in its contract, in addition to any earlier problem."""

    key: str
    problem: str


class EndAttempt(Effect, frozen=True):
    """End the attempt and give the session its status, with the verification that it rests on.

    `produced` is kept with the attempt: the state of the files when they were verified. `was_awaited` says that the
    verdict waited until the run's directory was quiet.
    """

    key: str
    attempt: int
    at: float
    ended_by: Evidence
    replaces: Status
    status: Status
    reason: Reason
    source: Source
    verification_json: str | None
    delivery: DeliveryState | None
    produced: tuple[Produced, ...] = ()
    was_awaited: bool = False


class EndTree(Effect, frozen=True):
    """Kill all processes of an attempt in `directory`: its `timeout` (seconds) has passed, and its launcher did not
    end it. Without a timeout, its launcher and its command have ended, and what they left is killed.

    `attempt` identifies the pending order. Only the run's cgroup, processes recorded by the launcher, and their
    descendants are killed.
    """

    key: str
    attempt: int
    directory: str
    processes: RunProcesses
    timeout: float | None


class NoteHook(Effect, frozen=True):
    """Record what a session's hook said last: when (Unix seconds), what, and the processes that it ran under.

    The agent is one of the `ancestors`, nearest first, whose numbers are valid in `whereabouts`. `launcher_session` is kept once it is known, and so
    is what was `declared` for the session when its hook first spoke.
    """

    key: str
    at: float
    kind: HookKind
    ancestors: tuple[RecordedProcess, ...]
    launcher_session: str | None
    whereabouts: Whereabouts
    declared: HookDeclaration | None = None


def why_started(event_key: str, *, is_first: bool) -> Reason:
    """The reason of a session's status while an attempt that this event opened is running."""
    code, summary = (
        ("run.started.ok", "it started") if is_first else ("run.started.resumed", "it was resumed")
    )
    return Reason(code, summary, (EvidenceRef("event", event_key, "AttemptStarted"),))


def verdict_among(judged: Effects) -> SessionFinished | None:
    """The verdict among these effects."""
    emitted = (each.event for each in judged if isinstance(each, Emit))
    return next((each for each in emitted if isinstance(each, SessionFinished)), None)
