"""Notices as data: events, effects, questions and their answers."""

from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Request


class NoticeRetryRequested(Request, frozen=True):
    """A person wants a notice tried again that was given up."""

    notice: str
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"notice:{self.notice}"


class SendNotice(Effect, frozen=True):
    """Tell a recipient from the settings what happened to `subject`, once for each kind. `at` is in Unix seconds."""

    id: str
    at: float
    kind: str
    subject: str
    recipient: str
    title: str
    text: str


class ResendNotice(Effect, frozen=True):
    """Try again to deliver a notice that was given up."""

    id: str
    at: float


class RecipientsOf(Question["tuple[str, ...]"], frozen=True):
    """Question: who gets notices of this kind, such as `chain.failed`. Answer: the names of the recipients."""

    kind: str


class NoticeStateOf(Question["str | None"], frozen=True):
    """Question: the state of a notice. Answer: `pending`, `delivered` or `dead`; None if there is none."""

    id: str
