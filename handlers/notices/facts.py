"""What can be asked about notices, and the answers."""

from dataclasses import dataclass
from typing import Final

from runward.handlers.asking import Question


@dataclass(frozen=True, slots=True)
class RecipientsOf(Question["tuple[str, ...]"]):
    """Question: who gets notices of this kind, such as `chain.failed`. Answer: the names of the recipients."""

    kind: str


@dataclass(frozen=True, slots=True)
class NoticeStateOf(Question["str | None"]):
    """Question: the state of a notice. Answer: `pending`, `delivered` or `dead`; None if there is none."""

    id: str


QUESTIONS: Final = (RecipientsOf, NoticeStateOf)
