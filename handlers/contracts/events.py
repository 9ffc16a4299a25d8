"""What can happen to contracts while a run goes on."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from runward.config.flow import Leg
from runward.handlers.event_kinds import OfSession


@dataclass(frozen=True, slots=True)
class FlowPlanned(OfSession):
    """A session's files name the legs of its flow. `digest` tells one plan from another.

    `at` is when it was planned (Unix seconds); `modified_ns` and `changed_ns` are the times of the plan's file.
    `filled` are the artifacts' directories in which something was seen before there was a plan. `seen_over` says
    that the look that found the plan also found the attempt's end.
    """

    type: ClassVar[str] = "FlowPlanned"
    version: ClassVar[int] = 1

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
        return f"{self.session_key}#{self.attempt}/planned/{self.digest}"


ContractEvent: TypeAlias = FlowPlanned
