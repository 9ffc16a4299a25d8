"""What can be asked about schedules, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.schedule import Schedule
from runward.handlers.asking import Question


class ScheduleStanding(NamedTuple):
    """The state of a schedule; the fields are those of `SetSchedule`."""

    words: str | None
    since: float
    due: float | None
    timer: str | None
    runs: int
    last_due: float | None


@dataclass(frozen=True, slots=True)
class ScheduleOf(Question["ScheduleStanding | None"]):
    """Question: the state of a chain's schedule. Answer: `ScheduleStanding`, or None if it never had one."""

    chain: str


class Scheduled(NamedTuple):
    """The schedule in a chain's file now, and the seconds by which a firing may be late and still count as on time."""

    schedule: Schedule
    words: str
    patience: float


@dataclass(frozen=True, slots=True)
class ScheduleIn(Question["Scheduled | None"]):
    """Question: which schedule a chain's file gives. Answer: `Scheduled`, or None without a valid one."""

    chain: str


QUESTIONS: Final = (ScheduleOf, ScheduleIn)
