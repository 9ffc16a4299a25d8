"""Timers as data: events, effects, questions and their answers."""

from runward.handlers.model.effects import Effect
from runward.handlers.model.events import AfterTime, Event


class TimerSet(Event, frozen=True):
    """Something is due at `due` (Unix seconds). `what` tells the handler in the lane `subject` what it is.

    Its job waits in a lane of its own, because a waiting job blocks its lane.
    """

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


class TimerRang(AfterTime, Event, frozen=True):
    """A timer is due. If it no longer matters, its owner finds nothing to do."""

    subject: str
    what: str
    at: float

    @property
    def key(self) -> str:
        return f"{self.subject}/{self.what}/rang"

    @property
    def lane(self) -> str:
        return self.subject


class RingNow(Effect, frozen=True):
    """Have what waits in a lane of timers checked now: the thing it waits for is over."""

    lane: str
