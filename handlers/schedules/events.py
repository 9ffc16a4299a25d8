"""What can happen to schedules."""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

LANE: Final = "schedule:"
"""How the lanes of schedules begin, and so the subjects of their timers."""


@dataclass(frozen=True, slots=True)
class ScheduleChanged:
    """The file of a chain says other times than before: `words`, as in its trigger; None if it says none any more."""

    type: ClassVar[str] = "ScheduleChanged"
    version: ClassVar[int] = 1

    chain: str
    at: float
    words: str | None

    @property
    def key(self) -> str:
        return f"{self.lane}@{self.at!r}"

    @property
    def lane(self) -> str:
        return f"{LANE}{self.chain}"


ScheduleEvent: TypeAlias = ScheduleChanged
