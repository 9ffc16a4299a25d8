"""What can be ordered: everything that a handler may want done, as data.

Effects on the store are applied with the completion of the job that asked for them, in one
transaction. Effects on the world become rows of the outbox in that same transaction and are
carried out after the commit.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.events import DeliveryState, Event, Evidence, Origin, SessionDeclaration, Status

ContractBasis: TypeAlias = Literal["launcher", "hook", "first_look", "late"]
Source: TypeAlias = Literal["daemon", "launcher", "hook", "person", "schedule"]


@dataclass(frozen=True, slots=True)
class EvidenceRef:
    """One thing that a conclusion rests on."""

    kind: Literal["expected_artifact", "artifact", "file", "exit", "process", "event"]
    id: str
    label: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a status is as it is: a stable code of three dotted parts, a sentence, the evidence."""

    code: str
    summary: str
    evidence_refs: tuple[EvidenceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenSession:
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


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """Open the session's next attempt; it must be the one after `attempt - 1`, which must be over."""

    key: str
    attempt: int
    at: float
    replaces: Status
    reason: Reason
    source: Source


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """End the attempt and give the session its status, with the verification that it rests on."""

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


@dataclass(frozen=True, slots=True)
class AppendLines:
    """Append whole lines to the journal `name` in `directory`.

    `live` says that the run may still write to the file: then only after a newline.
    """

    key: str
    directory: str
    name: str
    content: bytes
    live: bool


@dataclass(frozen=True, slots=True)
class Emit:
    """Record a further event, caused by the one that is being handled."""

    event: Event


@dataclass(frozen=True, slots=True)
class Explain:
    """Keep what was asked, known and decided or refused, for `runward why`."""

    subject: str
    verdict: Literal["decided", "refused"]
    summary: str
    known: JsonValue = None


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    """Put a held job back into its lane, or give it up, which frees the lane."""

    job: int
    state: Literal["waiting", "discarded"]
    reason: str


@dataclass(frozen=True, slots=True)
class ScanRoots:
    """Have every root scanned soon. Safe to repeat, so it needs no row in the outbox."""


@dataclass(frozen=True, slots=True)
class TryLater:
    """The world refused a fact that is needed (busy, full, unreadable): retry with backoff."""

    why: str


Effect: TypeAlias = (
    OpenSession | OpenAttempt | EndAttempt | AppendLines | Emit | Explain | ReleaseJob | ScanRoots
)
Effects: TypeAlias = tuple[Effect, ...]
