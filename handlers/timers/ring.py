"""A timer is due: its subject is notified, in the subject's own lane."""

from runward.handlers.model.asking import Given, NotYet
from runward.handlers.model.effects import Effects, Emit
from runward.handlers.model.schedules import LANE as SCHEDULE
from runward.handlers.model.timers import TimerRang, TimerSet


def decide(event: TimerSet, given: Given) -> Effects:
    """A timer is due: its subject is notified, in the subject's own lane.

    Tell the subject. A schedule goes by the wall clock; any other timer is due when its time has passed.
    """
    if event.subject.startswith(SCHEDULE) and given.at < event.due:
        raise NotYet(event.due)
    return (Emit(TimerRang(event.subject, event.what, given.at)),)
