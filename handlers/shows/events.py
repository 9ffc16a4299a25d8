"""What can happen to the plays of shows while they are played."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.handlers.event_kinds import OfSession


@dataclass(frozen=True, slots=True)
class PlayChanged(OfSession):
    """The `_meta.json` of a running play has changed. `digest` tells one state of it from the next.

    `at` is when that was seen (Unix seconds).
    """

    type: ClassVar[str] = "PlayChanged"
    version: ClassVar[int] = 1

    session_key: str
    attempt: int
    at: float
    digest: str

    @property
    def key(self) -> str:
        return f"{self.session_key}#{self.attempt}/play/{self.digest}"


ShowEvent: TypeAlias = PlayChanged
