"""What can be ordered for schedules: rows of their table."""

from typing import Final, NamedTuple, TypeAlias

LOST: Final = ""
"""The timer of a schedule that must be set again: a restore may have brought an old one back."""


class SetSchedule(NamedTuple):
    """Record when a chain is due next, which `timer` waits for it, and how often it was fired. Times are Unix seconds.

    `words` are what its file says, or None. Periods are counted from `since`. Without a `due` no further firing comes.
    """

    chain: str
    at: float
    words: str | None
    since: float
    due: float | None
    timer: str | None
    runs: int = 0
    last_due: float | None = None


ScheduleEffect: TypeAlias = SetSchedule
