"""What can be ordered for chains: rows of their tables. Steps are started as any run is (`StartRun`)."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue

ChainRunStatus: TypeAlias = Literal[
    "running", "completed", "failed", "timed_out", "aborted", "cancelled", "waiting_approval"
]
StepStatus: TypeAlias = Literal[
    "waiting",
    "waiting_approval",
    "skipped",
    "running",
    "completed",
    "failed",
    "timed_out",
    "aborted",
    "cancelled",
]


ChainStatus: TypeAlias = Literal["active", "paused", "disabled"]


class SetChainStatus(NamedTuple):
    """Record whether a chain fires: from `at` (Unix seconds) on, as `said_by` asked."""

    chain: str
    at: float
    status: ChainStatus
    note: str
    said_by: str


class OpenChainRun(NamedTuple):
    """Insert a run of a chain, with the definition that it keeps until its end and the fields of what fired it."""

    id: str
    chain: str
    at: float
    definition: JsonValue
    trigger: JsonValue
    fired_by: str
    deadline: float | None = None
    said_by: str = ""
    depth: int = 1
    turn: str | None = None
    """Runs of a chain with the same value begin one after the other."""
    waits: bool = False
    cause: JsonValue = None
    """What `chain` says about the event that fired it: `event`, `event_id`, `due_at` and `events`."""


class StepResult(NamedTuple):
    """What the session of a step left when it was judged, apart from its last outcome of a registered kind.

    `verification` is the object as ADR-0029 writes it. `artifacts` are the absolute paths of what the contract expected
    and was there, by the ids of its entries. `earlier` are the outcomes before the last one, oldest first; None if all
    together are longer than later steps may see.
    """

    delivery: str | None = None
    verification: JsonValue = None
    exit_code: int | None = None
    artifacts: Mapping[str, str] = {}
    earlier: Sequence[JsonValue] | None = ()


class SetStep(NamedTuple):
    """Store the state of a step of a chain run: its try, its condition's value and the reason of its status."""

    run: str
    step: int
    at: float
    status: StepStatus
    reason_code: str | None
    reason_summary: str | None
    value: JsonValue = None
    session_key: str | None = None
    attempt: int = 0
    outcome: JsonValue = None
    fired_at: float = 0.0
    """When its run was fired, for a step that waits for a slot."""
    result: StepResult = StepResult()


class SetChainRun(NamedTuple):
    """Move a chain run on to another step, or end it."""

    run: str
    at: float
    status: ChainRunStatus
    reason_code: str
    reason_summary: str
    current_step: int


class RecordFiring(NamedTuple):
    """Store the result of a firing by the event `fired_by` of this name, with the reason `result`, and the run that it became."""

    chain: str
    at: float
    fired_by: str
    event: str
    result: str
    why: str
    run: str | None = None
    due_at: float | None = None


class HoldEvent(NamedTuple):
    """Store an event that the composite trigger of a chain has seen, until the rest of it happens.

    `items` are the numbers of the events and schedules that it is meant for in the trigger with the hash `trigger`.
    """

    chain: str
    key: str
    at: float
    items: tuple[int, ...]
    trigger: str
    event: str
    event_id: str
    fields: JsonValue
    by_run: str | None = None


class ReleaseEvents(NamedTuple):
    """Stop holding these events for the trigger of a chain: they were used, or are too old."""

    chain: str
    keys: tuple[str, ...]


ChainEffect: TypeAlias = (
    SetChainStatus | OpenChainRun | SetStep | SetChainRun | RecordFiring | HoldEvent | ReleaseEvents
)
