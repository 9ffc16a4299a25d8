"""What can be asked about notices, and the answers."""

from dataclasses import dataclass
from typing import Final

from runward.handlers.asking import Question


@dataclass(frozen=True, slots=True)
class RecipientsOf(Question["tuple[str, ...]"]):
    """Question: who is told of what happens, as in `chain.failed`. Answer: the names of the recipients."""

    kind: str


@dataclass(frozen=True, slots=True)
class NoticeStateOf(Question["str | None"]):
    """Question: what became of a notice. Answer: `pending`, `delivered` or `dead`; None where there is none."""

    id: str


QUESTIONS: Final = (RecipientsOf, NoticeStateOf)
