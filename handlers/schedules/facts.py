"""What can be asked about schedules, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.schedule import Schedule
from runward.handlers.asking import Question


class ScheduleStanding(NamedTuple):
    """How a schedule stands; the fields are those of `SetSchedule`."""

    words: str | None
    since: float
    due: float | None
    timer: str | None
    runs: int
    last_due: float | None


@dataclass(frozen=True, slots=True)
class ScheduleOf(Question["ScheduleStanding | None"]):
    """Question: how the schedule of a chain stands. Answer: `ScheduleStanding`, or None where it never had one."""

    chain: str


class Scheduled(NamedTuple):
    """The schedule that the file of a chain says now, and the seconds by which a firing may be late and still is due."""

    schedule: Schedule
    words: str
    patience: float


@dataclass(frozen=True, slots=True)
class ScheduleIn(Question["Scheduled | None"]):
    """Question: which schedule the file of a chain says. Answer: `Scheduled`, or None without a right one."""

    chain: str


QUESTIONS: Final = (ScheduleOf, ScheduleIn)
