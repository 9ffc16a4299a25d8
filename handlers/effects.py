"""What can be ordered: everything that a handler may want done, as data. Each capability has its own; this page joins
them, with the two that any of them may need.

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
from runward.handlers.contracts.effects import ContractEffect, RecordedFile, RecordFiles
from runward.handlers.events import Event
from runward.handlers.exchange.effects import ExchangeEffect
from runward.handlers.invocations.effects import InvocationEffect
from runward.handlers.journal.effects import AppendLines, JournalEffect, RepairJournal
from runward.handlers.notices.effects import NoticeEffect
from runward.handlers.outcomes.effects import OutcomeEffect
from runward.handlers.requests.effects import (
    AcceptRoot,
    CancelRun,
    PruneSessions,
    ReleaseJob,
    RequestEffect,
    ScanRoots,
)
from runward.handlers.schedules.effects import ScheduleEffect
from runward.handlers.sessions.effects import (
    ContractBasis,
    EndAttempt,
    EndTree,
    EvidenceRef,
    FoldContract,
    HoldToLaunch,
    NoteHook,
    OpenAttempt,
    OpenSession,
    Reason,
    RefuseFold,
    SessionEffect,
    Source,
)
from runward.handlers.shows.effects import ShowEffect
from runward.handlers.starts.effects import StartEffect, StartRun
from runward.handlers.timers.effects import RingNow, TimerEffect

__all__ = [
    "AcceptRoot",
    "AppendLines",
    "CancelRun",
    "ContractBasis",
    "Deciding",
    "Effect",
    "Effects",
    "Emit",
    "EndAttempt",
    "EndTree",
    "EvidenceRef",
    "Explain",
    "FoldContract",
    "HoldToLaunch",
    "NoteHook",
    "OpenAttempt",
    "OpenSession",
    "PruneSessions",
    "Reason",
    "RecordFiles",
    "RecordedFile",
    "RefuseFold",
    "ReleaseJob",
    "RepairJournal",
    "RingNow",
    "ScanRoots",
    "Source",
    "StartRun",
]


class Emit(NamedTuple):
    """Record a further event, caused by the one being handled."""

    event: Event


class Explain(NamedTuple):
    """Record what was asked, known and decided or refused, for `runward why`."""

    subject: str
    verdict: Literal["decided", "refused"]
    summary: str
    known: JsonValue = None


Effect: TypeAlias = (
    Emit
    | Explain
    | SessionEffect
    | ContractEffect
    | JournalEffect
    | RequestEffect
    | TimerEffect
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
