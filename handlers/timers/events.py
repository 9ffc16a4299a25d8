"""Timers: that something is due at a point in time, and that this time has come."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.handlers.event_kinds import AfterTime


@dataclass(frozen=True, slots=True)
class TimerSet:
    """Something is due at `due` (Unix seconds). `what` says what, to the handler in the lane `subject`.

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
    """The time of a timer has come. Anyone who set it finds nothing to do if it does not matter any more."""

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
