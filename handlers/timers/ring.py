"""The time of a timer has come: its subject is told, in the subject's own lane."""

from runward.handlers.asking import Given, NotYet
from runward.handlers.effects import Effects, Emit
from runward.handlers.timers.events import TimerRang, TimerSet


def decide(event: TimerSet, given: Given) -> Effects:
    """Tell the subject; not before its time, also if the clock was set back."""
    if given.at < event.due:
        raise NotYet(event.due)
    return (Emit(TimerRang(event.subject, event.what, given.at)),)
