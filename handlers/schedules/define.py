"""The file of a chain gives other times: the next one is found, and a timer waits for it."""

from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.schedules import (
    ScheduleChanged,
    ScheduleIn,
    ScheduleOf,
    SetSchedule,
    chain_and_item,
)
from runward.handlers.schedules.awaiting import until
from runward.handlers.times import in_utc


def decide(event: ScheduleChanged, given: Given) -> Deciding:
    """The file of a chain gives other times: the next one is found, and a timer waits for it.

    Wait for what the file says now, which may have changed again. With the same words the counting continues.
    """
    standing = yield from ask(ScheduleOf(event.chain))
    found = yield from ask(ScheduleIn(event.chain))
    subject = f"chain {chain_and_item(event.chain)[0]}"
    if found is None:
        if standing is None or standing.words is None:
            return ()
        gone = SetSchedule(event.chain, given.at, None, given.at, None, None)
        return gone, Explain(subject, "decided", "it no longer has a schedule")
    is_known = standing is not None and standing.words == found.words
    since = standing.since if standing is not None and is_known else given.at
    runs = standing.runs if standing is not None and is_known else 0
    last = standing.last_due if standing is not None and is_known else None
    due = found.schedule.times.next_after(given.at, since)
    if found.schedule.max_runs is not None and runs >= found.schedule.max_runs:
        due = None
    said = "nothing is due now" if due is None else f"it is due next at {in_utc(due)}"
    waited = until(event.chain, found, given, due, since, runs, last)
    return (*waited, Explain(subject, "decided", f"its schedule is {found.schedule.times.text!r}: {said}"))
