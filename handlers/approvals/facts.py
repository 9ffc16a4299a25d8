"""What can be asked about approvals, and the answers."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from runward.handlers.asking import Question


class ApprovalStanding(NamedTuple):
    """An approval: which step it is for, the hash of what was shown, and whether it is decided."""

    id: str
    run: str
    step: int
    status: Literal["asked", "approved", "denied", "expired", "changed"]
    shown_hash: str
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class ApprovalOf(Question["ApprovalStanding | None"]):
    """Question: the state of an approval. Answer: `ApprovalStanding`, or None if there is no such approval."""

    id: str


QUESTIONS: Final = (ApprovalOf,)
