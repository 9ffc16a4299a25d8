"""What can be ordered for approvals: rows of their table."""

from typing import NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.approvals.events import Decision


class AskApproval(NamedTuple):
    """Store what a person is shown before a step runs, with its hash. Times are Unix seconds."""

    id: str
    run: str
    step: int
    at: float
    expires_at: float | None
    shown: JsonValue
    shown_hash: str


class DecideApproval(NamedTuple):
    """Record how an approval was decided, by whom and why."""

    id: str
    at: float
    decision: Decision
    note: str
    said_by: str


ApprovalEffect: TypeAlias = AskApproval | DecideApproval
