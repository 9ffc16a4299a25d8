"""What can be ordered for notices."""

from typing import NamedTuple, TypeAlias


class SendNotice(NamedTuple):
    """Tell a recipient from the settings what happened to `subject`, once for each kind. `at` is in Unix seconds."""

    id: str
    at: float
    kind: str
    subject: str
    recipient: str
    title: str
    text: str


class ResendNotice(NamedTuple):
    """Try again to deliver a notice that was given up."""

    id: str
    at: float


NoticeEffect: TypeAlias = SendNotice | ResendNotice
