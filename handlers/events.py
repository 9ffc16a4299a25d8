"""What can happen: every fact that Runward records, as data. Each capability has its own; this page joins them.

An event is recorded once, under a key that makes a second report of it harmless. Events are
past tense. Each class names its `version`; an older stored version is lifted in `UPCASTERS`
when it is read, so no handler ever sees an old shape.
"""

import json
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Final, TypeAlias, get_args

from runward.config.json_value import JsonValue
from runward.config.plain_data import MAX_INTEGER
from runward.handlers.approvals.events import ApprovalEvent
from runward.handlers.bundle.events import BundleEvent
from runward.handlers.chains.events import ChainEvent
from runward.handlers.contracts.events import ContractEvent, FlowPlanned
from runward.handlers.event_kinds import Request
from runward.handlers.exchange.events import ExchangeEvent
from runward.handlers.journal.events import JournalDamaged, JournalEvent
from runward.handlers.layouts.foreign_json import LATEST
from runward.handlers.model.stored import Stored, as_json
from runward.handlers.notices.events import NoticeEvent
from runward.handlers.outcomes.events import OutcomeEvent
from runward.handlers.requests.events import (
    JobDiscardRequested,
    JobRetryRequested,
    PlayRunRequested,
    PruneRequested,
    RequestEvent,
    RootAcceptRequested,
    ScanRequested,
    SessionCancelRequested,
    SessionSeenRequested,
)
from runward.handlers.schedules.events import ScheduleEvent
from runward.handlers.sessions.events import (
    EVIDENCE_STRENGTH,
    AttemptEnded,
    AttemptStarted,
    DeliveryState,
    Evidence,
    HookKind,
    HookSpoke,
    Origin,
    RunLaunched,
    SessionDeclaration,
    SessionEvent,
    SessionFinished,
    Status,
)
from runward.handlers.shows.events import ShowEvent
from runward.handlers.starts.events import StartEvent
from runward.handlers.timers.events import TimerEvent

__all__ = [
    "EVIDENCE_STRENGTH",
    "MAXIMUM_DEPTH",
    "UPCASTERS",
    "AttemptEnded",
    "AttemptStarted",
    "DeliveryState",
    "Event",
    "Evidence",
    "FlowPlanned",
    "HookKind",
    "HookSpoke",
    "JobDiscardRequested",
    "JobRetryRequested",
    "JournalDamaged",
    "Origin",
    "PlayRunRequested",
    "PruneRequested",
    "RootAcceptRequested",
    "RunLaunched",
    "ScanRequested",
    "SessionCancelRequested",
    "SessionDeclaration",
    "SessionFinished",
    "SessionSeenRequested",
    "Status",
    "UnknownEvent",
    "Upcaster",
    "dump_payload",
    "event_types",
    "load_payload",
    "requests",
]

Event: TypeAlias = (
    SessionEvent
    | ContractEvent
    | JournalEvent
    | RequestEvent
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
"""All capabilities' own events."""

_CLASSES: Final[tuple[type[Event], ...]] = get_args(Event)
_STORED: Final[dict[str, Stored[Event]]] = {each.type: Stored(each) for each in _CLASSES}
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
    return as_json(event)


def load_payload(kind: str, version: int, payload: bytes | str) -> Event:
    """The event that was stored as `payload`. Raises `UnknownEvent`."""
    stored = _STORED.get(kind)
    if stored is None:
        raise UnknownEvent(f"unknown event type {kind!r}")
    current = _VERSIONS[kind]
    if version > current:
        raise UnknownEvent(
            f"{kind} version {version} was written by a newer Runward (this one knows {current})"
        )
    try:
        if version == current:
            return stored.load(payload)
        fields_then: dict[str, JsonValue] = json.loads(payload)
        for step in range(version, current):
            fields_then = UPCASTERS[kind, step](fields_then)
        return stored.load(as_json(fields_then))
    except (ValueError, KeyError) as error:
        raise UnknownEvent(f"{kind} version {version} can't be read: {error}") from error


def impossible(event: Event) -> str | None:
    """Which of the event's own numbers neither the store nor a calendar can hold. None if all are possible.

    For events that arrive as files: what is put once must be readable for ever.
    """
    for each in fields(event):
        value = getattr(event, each.name)
        if isinstance(value, float) and not math.isfinite(value):
            return f"{each.name} is not a finite number"
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            return f"{each.name} has more than 64 bits"
        if each.name == "at" and not 0.0 <= value <= LATEST:
            return "at is not a time from 1970 to 9999"
    return None


def event_types() -> tuple[str, ...]:
    """The names of all event types, in the order of this page."""
    return tuple(_STORED)


def requests() -> tuple[type[Event], ...]:
    """The events that people ask for."""
    return tuple(each for each in _CLASSES if issubclass(each, Request))
