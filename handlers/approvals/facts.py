"""What can be asked about approvals, and the answers."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from runward.handlers.asking import Question


class ApprovalStanding(NamedTuple):
    """An approval: for which step it is, the hash of what was shown, and whether it is decided."""

    id: str
    run: str
    step: int
    status: Literal["asked", "approved", "denied", "expired", "changed"]
    shown_hash: str
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class ApprovalOf(Question["ApprovalStanding | None"]):
    """Question: how an approval stands. Answer: `ApprovalStanding`, or None where there is no such approval."""

    id: str


QUESTIONS: Final = (ApprovalOf,)
