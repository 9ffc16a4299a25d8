"""Waiting for the next time of a schedule."""

from runward.handlers.model.asking import Given
from runward.handlers.model.effects import Effect, Emit
from runward.handlers.model.schedules import LANE, Scheduled, SetSchedule
from runward.handlers.model.timers import TimerSet


def until(
    chain: str,
    found: Scheduled,
    given: Given,
    due: float | None,
    since: float,
    runs: int,
    last: float | None,
) -> tuple[Effect, ...]:
    """Wait until `due` plus the seconds by which that firing is put off. With None no further firing comes."""
    if due is None:
        return (SetSchedule(chain, given.at, found.words, since, None, None, runs, last),)
    rings = due + found.schedule.put_off(chain, due, found.schedule.times.next_after(due, since))
    timer = f"{due!r} {given.event_hash[:16]}"
    return (
        SetSchedule(chain, given.at, found.words, since, due, timer, runs, last),
        Emit(TimerSet(f"{LANE}{chain}", timer, given.at, rings)),
    )
