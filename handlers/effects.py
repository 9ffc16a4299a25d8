"""What can be ordered: everything that a handler may want done, as data.

Effects on the store are applied with the completion of the job that asked for them, in one
transaction. Effects on the world become rows of the outbox in that same transaction and are
carried out after the commit.
"""

from typing import Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.approvals.effects import ApprovalEffect
from runward.handlers.asking import Asking
from runward.handlers.bundle.effects import BundleEffect
from runward.handlers.chains.effects import ChainEffect
from runward.handlers.contracts.artifact_facts import Produced
from runward.handlers.contracts.file_problems import FileProblem
from runward.handlers.events import (
    DeliveryState,
    Event,
    Evidence,
    HookKind,
    Origin,
    SessionDeclaration,
    Status,
)
from runward.handlers.exchange.effects import ExchangeEffect
from runward.handlers.facts import HookDeclaration, RunProcesses
from runward.handlers.invocations.effects import InvocationEffect
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.notices.effects import NoticeEffect
from runward.handlers.outcomes.effects import OutcomeEffect
from runward.handlers.schedules.effects import ScheduleEffect
from runward.handlers.shows.effects import ShowEffect
from runward.handlers.starts.effects import StartEffect

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


class OpenSession(NamedTuple):
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


class OpenAttempt(NamedTuple):
    """Open the session's next attempt; it must be the one after `attempt - 1`, which must be over."""

    key: str
    attempt: int
    at: float
    replaces: Status
    reason: Reason
    source: Source


class FoldContract(NamedTuple):
    """Replace the session's contract by the one that includes the legs of a flow, once, while its first attempt runs.

    `contract_basis` counts if the session had no contract before.
    """

    key: str
    contract_json: str | None
    contract_basis: ContractBasis | None


class HoldToLaunch(NamedTuple):
    """Replace the contract that a session's files declared by the one that its launcher recorded, once."""

    key: str
    contract_json: str | None
    problem: str


class RefuseFold(NamedTuple):
    """Record with the session why a plan's legs are not in its contract, in addition to any earlier problem."""

    key: str
    problem: str


class EndAttempt(NamedTuple):
    """End the attempt and give the session its status, with the verification that it rests on.

    `produced` is kept with the attempt: the state of the files when they were verified.
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


class RecordedFile(NamedTuple):
    """A produced file with its hash (hex), or with the problem why it has none. A `changed` file has both.

    `size` in bytes and `modified_ns` are those of what was hashed, else those from when it was verified.
    """

    id: str
    path: str
    size: int
    modified_ns: int
    sha256: str | None
    problem: FileProblem | None


class RecordFiles(NamedTuple):
    """Store the hashes of what an attempt produced, one for each file."""

    key: str
    attempt: int
    files: tuple[RecordedFile, ...]


class AppendLines(NamedTuple):
    """Append whole lines to the journal `name` in `directory`.

    `live` says that the run may still write to the file: then lines are appended only after a newline.
    """

    key: str
    directory: str
    name: str
    content: bytes
    live: bool


class RepairJournal(NamedTuple):
    """Have these `rows` of the store written again to the journal `name` in `directory`.

    `live` is as in `AppendLines`. `problem` is kept if somebody changed what was there.
    """

    directory: str
    name: str
    rows: tuple[int, ...]
    live: bool
    problem: str | None = None


class Emit(NamedTuple):
    """Record a further event, caused by the one being handled."""

    event: Event


class Explain(NamedTuple):
    """Record what was asked, known and decided or refused, for `runward why`."""

    subject: str
    verdict: Literal["decided", "refused"]
    summary: str
    known: JsonValue = None


class ReleaseJob(NamedTuple):
    """Put a held job back into its lane, or give it up, which frees the lane."""

    job: int
    state: Literal["waiting", "discarded"]
    reason: str


class CancelRun(NamedTuple):
    """Have the launcher of an attempt in `directory` end it, or its process if no launcher is left.

    `attempt` identifies the pending order. The processes are signalled only if they are still the ones recorded.
    """

    key: str
    attempt: int
    directory: str
    processes: RunProcesses
    said_by: str
    reason: str


class EndTree(NamedTuple):
    """Kill all processes of an attempt in `directory`: its `timeout` (seconds) has passed, and its launcher did not
    end it.

    `attempt` identifies the pending order. Only processes recorded by the launcher, and their descendants, are killed.
    """

    key: str
    attempt: int
    directory: str
    processes: RunProcesses
    timeout: float


class RingNow(NamedTuple):
    """Have what waits in a lane of timers checked now: the thing it waits for is over."""

    lane: str


class StartRun(NamedTuple):
    """Have a launcher run a command as a native run, after the commit and exactly once for its `key`.

    The run becomes the directory `name` in `root` (the path of a root) and, once its `run.json` exists, the session
    `session` of this `kind`. `command` has the words after all templates, `environment` what they get in addition to
    the daemon's own variables. `contract` is the snapshot as JSON, `timeout` and `grace` are seconds. `metadata` and
    `invocation_id` go into `run.json`.
    """

    key: str
    session: str
    root: str
    name: str
    command: tuple[str, ...]
    cwd: str
    environment: tuple[tuple[str, str], ...] = ()
    playbook: str | None = None
    agent: str | None = None
    contract: JsonValue = None
    timeout: float | None = None
    grace: float | None = None
    metadata: tuple[tuple[str, JsonValue], ...] = ()
    stale_after: float | None = None
    """The seconds of silence that end it."""
    worktree: tuple[str, str] | None = None
    """A git repository (its path) and the revision to check out. The command starts there, and not in `cwd`."""
    kind: Literal["agent", "step"] = "agent"
    invocation_id: str | None = None


class NoteHook(NamedTuple):
    """Record what a session's hook said last: when (Unix seconds), what, and the processes that it ran under.

    The agent is one of the `ancestors`, nearest first. `launcher_session` is kept once it is known, and so
    is what was `declared` for the session when its hook first spoke.
    """

    key: str
    at: float
    kind: HookKind
    ancestors: tuple[RecordedProcess, ...]
    launcher_session: str | None
    declared: HookDeclaration | None = None


class ScanRoots(NamedTuple):
    """Have every root scanned soon. Safe to repeat, so it needs no row in the outbox."""


class AcceptRoot(NamedTuple):
    """Let a root be the directory `identity` (device and inode) from now on."""

    root: str
    identity: str


class PruneSessions(NamedTuple):
    """Have the record of the sessions that ended before a moment (Unix seconds) pruned, in the background."""

    before: float
    said_by: str


Effect: TypeAlias = (
    OpenSession
    | OpenAttempt
    | FoldContract
    | RefuseFold
    | HoldToLaunch
    | EndAttempt
    | RecordFiles
    | AppendLines
    | Emit
    | Explain
    | ReleaseJob
    | CancelRun
    | EndTree
    | RingNow
    | StartRun
    | RepairJournal
    | NoteHook
    | ScanRoots
    | PruneSessions
    | AcceptRoot
    | StartEffect
    | ChainEffect
    | ApprovalEffect
    | NoticeEffect
    | ScheduleEffect
    | OutcomeEffect
    | BundleEffect
    | InvocationEffect
    | ShowEffect
    | ExchangeEffect
)
Effects: TypeAlias = tuple[Effect, ...]

Deciding: TypeAlias = Asking[Effects]
"""What a handler returns if it asks before it decides."""
