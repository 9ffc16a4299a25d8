"""What can happen to notices."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.handlers.event_kinds import Request


@dataclass(frozen=True, slots=True)
class NoticeRetryRequested(Request):
    """A person wants a notice tried again that was given up."""

    type: ClassVar[str] = "NoticeRetryRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    notice: str
    said_by: str = ""

    @property
    def lane(self) -> str:
        return f"notice:{self.notice}"


NoticeEvent: TypeAlias = NoticeRetryRequested
