"""Timers and schedules as data: events, effects, questions and their answers."""

from typing import Final, NamedTuple

from runward.config.schedule import Schedule
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import AfterTime, Event
from runward.handlers.subjects import SCHEDULE, TIMERS


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
        # A timer of this name is set once. Whatever is to ring again needs another name.
        return f"{self.subject}/{self.what}"

    @property
    def lane(self) -> str:
        return f"{TIMERS}{self.key}"


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


_ITEM: Final = "#"
"""The separator of a chain's name and the number of an item of its composite trigger. No name contains it."""


def schedule_of_item(chain: str, number: int) -> str:
    """The name of the schedule that is an item of the composite trigger of a chain."""
    return f"{chain}{_ITEM}{number}"


def chain_and_item(schedule: str) -> tuple[str, int | None]:
    """The chain of a schedule, and its number in a composite trigger; None if the schedule is the whole trigger."""
    chain, _, number = schedule.partition(_ITEM)
    return chain, int(number) if number else None


class ScheduleChanged(Event, frozen=True):
    """The file of a chain gives other times than before: `words`, as in its trigger; None if it no longer gives
    any."""

    chain: str
    at: float
    words: str | None

    @property
    def key(self) -> str:
        return f"{self.lane}@{self.at!r}"

    @property
    def lane(self) -> str:
        return f"{SCHEDULE}{self.chain}"


LOST: Final = ""
"""The timer of a schedule that must be set again: a restore may have brought an old one back."""


class ScheduleStanding(NamedTuple):
    """The state of a schedule: when its chain is due next, which `timer` waits for it, and how often it was fired.

    `words` are what its file says, or None. Periods are counted from `since`. Without a `due` no further firing comes.
    Times are Unix seconds.
    """

    words: str | None
    since: float
    due: float | None = None
    timer: str | None = None
    runs: int = 0
    last_due: float | None = None


class SetSchedule(Effect, frozen=True):
    """Record the state of a chain's schedule."""

    chain: str
    at: float
    standing: ScheduleStanding


class ScheduleOf(Question["ScheduleStanding | None"], frozen=True):
    """Question: the state of a chain's schedule. Answer: `ScheduleStanding`, or None if it never had one."""

    chain: str


class Scheduled(NamedTuple):
    """The schedule in a chain's file now, and the seconds by which a firing may be late and still count as on time."""

    schedule: Schedule
    words: str
    patience: float


class ScheduleIn(Question["Scheduled | None"], frozen=True):
    """Question: which schedule a chain's file gives. Answer: `Scheduled`, or None without a valid one."""

    chain: str
