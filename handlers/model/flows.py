"""Flows as data: the event of a plan. A look at any run may find one, so this imports little."""

from runward.config.flow import Leg
from runward.handlers.model.events import Event, OfSession


class FlowPlanned(OfSession, Event, frozen=True):
    """A session's files name the legs of its flow. `digest` tells one plan from another.

    `at` is when it was planned (Unix seconds); `modified_ns` and `changed_ns` are the times of the plan's file.
    `filled` are the artifacts' directories in which something was seen before there was a plan. `seen_over` says
    that the look that found the plan also found the attempt's end.
    """

    session_key: str
    attempt: int
    at: float
    digest: str
    legs: tuple[Leg, ...]
    modified_ns: int
    changed_ns: int
    filled: tuple[str, ...] = ()
    seen_over: bool = False

    @property
    def key(self) -> str:
        # A plan that is only touched is not put again.
        return f"{self.session_key}#{self.attempt}/planned/{self.digest}"
