"""What can happen to schedules."""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

LANE: Final = "schedule:"
"""The prefix of schedules' lanes, and so of the subjects of their timers."""


_ITEM: Final = "#"
"""The separator of a chain's name and the number of an item of its composite trigger. No name contains it."""


def schedule_of_item(chain: str, number: int) -> str:
    """The name of the schedule that is an item of the composite trigger of a chain."""
    return f"{chain}{_ITEM}{number}"


def chain_and_item(schedule: str) -> tuple[str, int | None]:
    """The chain of a schedule, and its number in a composite trigger; None if the schedule is the whole trigger."""
    chain, _, number = schedule.partition(_ITEM)
    return chain, int(number) if number else None


@dataclass(frozen=True, slots=True)
class ScheduleChanged:
    """The file of a chain gives other times than before: `words`, as in its trigger; None if it no longer gives
    any."""

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
