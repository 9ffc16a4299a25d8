"""What can be asked about approvals, and the answers."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.approvals.left_files import LeftFiles, LeftPlace  # noqa: F401 - in the types of answers
from runward.handlers.asking import Question
from runward.handlers.unreadable import Unreadable  # noqa: F401 - in the types of answers


class ApprovalStanding(NamedTuple):
    """An approval: which step it is for, what was shown and its hash, and whether it is decided."""

    id: str
    run: str
    step: int
    status: Literal["asked", "approved", "denied", "expired", "changed"]
    shown_hash: str
    expires_at: float | None
    shown: JsonValue = None


@dataclass(frozen=True, slots=True)
class ApprovalOf(Question["ApprovalStanding | None"]):
    """Question: the state of an approval. Answer: `ApprovalStanding`, or None if there is no such approval."""

    id: str


@dataclass(frozen=True, slots=True)
class FilesLeftIn(Question["tuple[LeftFiles | Unreadable, ...]"]):
    """Question: what did the runs in these places leave? Answer: `LeftFiles` or `Unreadable` for each place.

    Whole files are read: only a background job may ask.
    """

    places: tuple[LeftPlace, ...]


QUESTIONS: Final = (ApprovalOf, FilesLeftIn)
