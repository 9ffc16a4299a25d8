"""What can be asked about approvals, and the answers."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.approvals.left_files import (
    LeftFiles,  # noqa: F401 - in the types of answers
    LeftPlace,
    WorkPlace,
)
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
    asked_at: float | None = None


@dataclass(frozen=True, slots=True)
class ApprovalOf(Question["ApprovalStanding | None"]):
    """Question: the state of an approval. Answer: `ApprovalStanding`, or None if there is no such approval."""

    id: str


@dataclass(frozen=True, slots=True)
class FilesLeftIn(Question["tuple[LeftFiles | Unreadable, ...]"]):
    """Question: what did runs leave in these places and elsewhere? Answer: `LeftFiles` or `Unreadable` for each place,
    in this order.

    Whole files are read: only a background job may ask.
    """

    places: tuple[LeftPlace, ...]
    elsewhere: tuple[WorkPlace, ...] = ()


class Workplace(NamedTuple):
    """Where the command of a step was started: in `cwd`, or in the worktree of this name.

    It was ordered at `ordered_at` (Unix seconds). At `begun_at`, its worktree was complete and its command had done
    nothing yet, if that is known.
    """

    cwd: str
    worktree: str | None
    ordered_at: float
    begun_at: float | None


@dataclass(frozen=True, slots=True)
class WorkplaceOf(Question["Workplace | None"]):
    """Question: where did the daemon have the command of this step's session started? Answer: `Workplace`, or None."""

    session_key: str


QUESTIONS: Final = (ApprovalOf, FilesLeftIn, WorkplaceOf)
