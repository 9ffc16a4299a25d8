"""What can be asked: the questions that handlers put with `ask`, and their answers, as data. Each capability has its own;
this page joins them.

An absent thing is a value. "Cannot read" is `Unreadable`, and never the same as empty or gone.
"""

from typing import Final

from runward.handlers.approvals import facts as approvals
from runward.handlers.asking import Question
from runward.handlers.bundle import facts as bundle
from runward.handlers.chains import facts as chains
from runward.handlers.chains.facts import LaneWaits
from runward.handlers.contracts import facts as contracts
from runward.handlers.contracts.facts import (
    ArtifactsUnder,
    Declarations,
    DeclaredContract,
    EarlyLegs,
    HashesOf,
    LegsBefore,
    ProducedBy,
    ProducedFiles,
    Ruled,
    RuledPlaybook,
)
from runward.handlers.exchange import acting_with_code
from runward.handlers.exchange import facts as exchange
from runward.handlers.invocations import facts as invocations
from runward.handlers.notices import facts as notices
from runward.handlers.outcomes import facts as outcomes
from runward.handlers.requests import facts as requests
from runward.handlers.requests.facts import JobState, JobStateOf
from runward.handlers.schedules import facts as schedules
from runward.handlers.sessions import facts as sessions
from runward.handlers.sessions.facts import (
    AgeOf,
    Cancellation,
    CancellationOf,
    CoveringRoot,
    DeclaredToHook,
    HookDeclaration,
    LastChange,
    LastChangeOf,
    Launch,
    LaunchOf,
    LinkedSession,
    LinkedSessions,
    LinkedSessionsOf,
    ProcessesOf,
    RootOf,
    RunProcesses,
    Session,
    SessionOf,
    WorkingDirectoryOf,
)
from runward.handlers.shows import facts as shows
from runward.handlers.starts import facts as starts
from runward.handlers.starts.facts import ActionOf, Play, PlayOf

__all__ = [
    "QUESTIONS",
    "ActionOf",
    "AgeOf",
    "ArtifactsUnder",
    "Cancellation",
    "CancellationOf",
    "CoveringRoot",
    "Declarations",
    "DeclaredContract",
    "DeclaredToHook",
    "EarlyLegs",
    "HashesOf",
    "HookDeclaration",
    "JobState",
    "JobStateOf",
    "LaneWaits",
    "LastChange",
    "LastChangeOf",
    "Launch",
    "LaunchOf",
    "LegsBefore",
    "LinkedSession",
    "LinkedSessions",
    "LinkedSessionsOf",
    "Play",
    "PlayOf",
    "ProcessesOf",
    "ProducedBy",
    "ProducedFiles",
    "RootOf",
    "Ruled",
    "RuledPlaybook",
    "RunProcesses",
    "Session",
    "SessionOf",
    "WorkingDirectoryOf",
]

QUESTIONS: Final[tuple[type[Question[object]], ...]] = (
    *sessions.QUESTIONS,
    *contracts.QUESTIONS,
    *requests.QUESTIONS,
    *starts.QUESTIONS,
    *chains.QUESTIONS,
    *approvals.QUESTIONS,
    *notices.QUESTIONS,
    *schedules.QUESTIONS,
    *outcomes.QUESTIONS,
    *bundle.QUESTIONS,
    *invocations.QUESTIONS,
    *shows.QUESTIONS,
    *exchange.QUESTIONS,
    *acting_with_code.QUESTIONS,
)
