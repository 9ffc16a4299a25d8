"""What can be ordered for sessions: their rows, and the end of their processes."""

from typing import Literal, NamedTuple, TypeAlias

from runward.handlers.contracts.artifact_facts import Produced
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.sessions.death import Whereabouts
from runward.handlers.sessions.events import (
    DeliveryState,
    Evidence,
    HookKind,
    Origin,
    SessionDeclaration,
    Status,
)
from runward.handlers.sessions.facts import HookDeclaration, RunProcesses

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


class EndTree(NamedTuple):
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


class NoteHook(NamedTuple):
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


SessionEffect: TypeAlias = (
    OpenSession | OpenAttempt | FoldContract | HoldToLaunch | RefuseFold | EndAttempt | EndTree | NoteHook
)
