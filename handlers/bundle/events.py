"""What can happen to bundles, apart from what happens to their sessions."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.config.bundle import Scheme
from runward.handlers.event_kinds import OfSession, Request


@dataclass(frozen=True, slots=True)
class ReceiptSignRequested(Request, OfSession):
    """A person wants the receipt of an attempt signed with the daemon's own key."""

    type: ClassVar[str] = "ReceiptSignRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    session_key: str
    attempt: int
    scheme: Scheme
    said_by: str = ""


BundleEvent: TypeAlias = ReceiptSignRequested
