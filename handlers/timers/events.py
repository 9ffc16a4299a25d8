"""Timers: something is due at a point in time, and then that time has come."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.handlers.event_kinds import AfterTime


@dataclass(frozen=True, slots=True)
class TimerSet:
    """Something is due at `due` (Unix seconds). `what` tells the handler in the lane `subject` what it is.

    Its job waits in a lane of its own, because a waiting job blocks its lane.
    """

    type: ClassVar[str] = "TimerSet"
    version: ClassVar[int] = 1

    subject: str
    what: str
    at: float
    due: float

    @property
    def key(self) -> str:
        return f"{self.subject}/{self.what}"

    @property
    def lane(self) -> str:
        return f"timer:{self.key}"


@dataclass(frozen=True, slots=True)
class TimerRang(AfterTime):
    """A timer is due. If it no longer matters, its owner finds nothing to do."""

    type: ClassVar[str] = "TimerRang"
    version: ClassVar[int] = 1

    subject: str
    what: str
    at: float

    @property
    def key(self) -> str:
        return f"{self.subject}/{self.what}/rang"

    @property
    def lane(self) -> str:
        return self.subject


TimerEvent: TypeAlias = TimerSet | TimerRang
