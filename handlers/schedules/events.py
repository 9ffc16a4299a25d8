"""What can happen to schedules."""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

LANE: Final = "schedule:"
"""How the lanes of schedules begin, and so the subjects of their timers."""


_ITEM: Final = "#"
"""What stands between the name of a chain and the number of an item of its composite trigger; no name has it."""


def schedule_of_item(chain: str, number: int) -> str:
    """What the schedule is called that is an item of the composite trigger of a chain."""
    return f"{chain}{_ITEM}{number}"


def chain_and_item(schedule: str) -> tuple[str, int | None]:
    """The chain of a schedule, and its number in a composite trigger; None where it fires the chain by itself."""
    chain, _, number = schedule.partition(_ITEM)
    return chain, int(number) if number else None


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
