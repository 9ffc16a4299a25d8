"""Timers and schedules: what is due at a point in time is told, and a chain is fired at the times that its file gives."""

from collections import deque
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Asking, Given, NotYet, ask
from runward.handlers.model.chains import ChainFired, ChainNamed, RecordFiring, TriggerMatched
from runward.handlers.model.effects import Deciding, Effect, Effects, Emit, Explain
from runward.handlers.model.schedules import (
    ScheduleChanged,
    Scheduled,
    ScheduleIn,
    ScheduleOf,
    ScheduleStanding,
    SetSchedule,
    TimerRang,
    TimerSet,
    chain_and_item,
)
from runward.handlers.subjects import SCHEDULE, of_chain
from runward.handlers.times import in_utc

PATIENCE: Final = 30.0
"""Seconds by which a firing may be late and still count as on time."""

MOST_CAUGHT_UP: Final = 100
"""Firings that `run_all` catches up at once."""

DUE: Final = "firing.fired.due"
RECOVERY: Final = "firing.fired.recovery"
MISSED: Final = "firing.missed.late"
EVENT: Final = "schedule.fired"


class Came(NamedTuple):
    """The times that have come since the last one. If there are many, only the newest ones. The oldest comes first."""

    times: tuple[float, ...]
    are_all: bool


def fire_what_is_due(event: TimerRang, given: Given) -> Deciding:
    """A schedule is due: the chain is fired or the firing is missed, and the wait for the next time begins."""
    chain = event.subject.removeprefix(SCHEDULE)
    standing = yield from ask(ScheduleOf(chain))
    # Nothing removes a timer. Only the one that the row names counts, so one of an older file, or from before a
    # restore, does nothing.
    if standing is None or standing.due is None or standing.timer != event.what:
        return ()
    scheduled = yield from ask(ScheduleIn(chain))
    if scheduled is None:
        gone = SetSchedule(chain, given.at, ScheduleStanding(None, given.at))
        return gone, Explain(_about(chain), "refused", "it is due, but its file has no valid schedule")
    # The daemon may have been down for long, so several times may have come.
    came = times_until(scheduled, standing.due, standing.since, given.at)
    fired, missed = _dealt(scheduled, chain, came, standing.since, given.at)
    limit = scheduled.schedule.max_runs
    if limit is not None:
        fired = fired[: limit - standing.runs]
    runs = standing.runs + len(fired)
    newest = came.times[-1]
    due = scheduled.schedule.times.next_after(max(newest, given.at), standing.since)
    if limit is not None and runs >= limit:
        due = None
    firings = yield from _fire(chain, scheduled, fired, given)
    misses = _miss(chain, missed, came, given)
    standing = standing._replace(words=scheduled.words, due=due, timer=None, runs=runs, last_due=newest)
    return (*misses, *firings, *until(chain, scheduled, standing, given))


def times_until(scheduled: Scheduled, first: float, since: float, now: float) -> Came:
    """The times from `first` until now."""
    after = scheduled.schedule.times.next_after
    begin, window = first, 60.0
    # The newest times are wanted, and times can only be computed forwards. So they are counted in a window before now,
    # which grows until it holds enough of them.
    while True:
        is_whole = now - window <= first
        times: deque[float] = deque([first] if is_whole else [], maxlen=MOST_CAUGHT_UP)
        each = after(first if is_whole else now - window, since)
        count = len(times)
        while each is not None and each <= now:
            times.append(each)
            count += 1
            each = after(each, since)
        if is_whole or count >= MOST_CAUGHT_UP:
            return Came(tuple(times) or (begin,), is_whole and count <= MOST_CAUGHT_UP)
        window *= 4


def _dealt(
    scheduled: Scheduled, chain: str, came: Came, since: float, now: float
) -> tuple[list[tuple[float, str]], list[float]]:
    """What is fired, each with the reason of its firing, and what is missed."""
    newest = came.times[-1]
    following = scheduled.schedule.times.next_after(newest, since)
    # What was put off on purpose (the jitter) is not late.
    late = now - newest - scheduled.schedule.put_off(chain, newest, following)
    code = DUE if late <= scheduled.patience else RECOVERY
    earlier = list(came.times[:-1])
    match scheduled.schedule.misfire:
        case "run_all":
            return [*((each, RECOVERY) for each in earlier), (newest, code)], []
        case "run_once":
            return [(newest, code)], earlier
    return ([(newest, code)], earlier) if code == DUE else ([], [*earlier, newest])


def _fire(
    chain: str, scheduled: Scheduled, fired: list[tuple[float, str]], given: Given
) -> Asking[tuple[Effect, ...]]:
    if not fired:
        return ()
    name, item = chain_and_item(chain)
    there = yield from ask(ChainNamed(name))
    if isinstance(there, str):
        return (Explain(_about(chain), "refused", there),)
    effects: list[Effect] = []
    for due, code in fired:
        due_at = in_utc(due)
        fields: dict[str, JsonValue] = {"due_at": due_at, "schedule": scheduled.schedule.times.text}
        common = (name, given.at, _key(item, due), EVENT, due_at, fields, there.definition)
        if item is None:
            effects.append(Emit(ChainFired(*common, result=code, due_at=due)))
        else:
            effects.append(Emit(TriggerMatched(*common, (item,), result=code, due_at=due)))
    return tuple(effects)


def _key(item: int | None, due: float) -> str:
    return f"schedule{'' if item is None else f'#{item}'}@{in_utc(due)}"


def _about(chain: str) -> str:
    return of_chain(chain_and_item(chain)[0])


def _miss(chain: str, missed: list[float], came: Came, given: Given) -> tuple[Effect, ...]:
    """One line for everything that was missed at once."""
    if not missed:
        return ()
    count = f"{len(missed)}" if came.are_all else f"more than {len(missed)}"
    many = f" and {count} in all since {in_utc(missed[0])}" if len(missed) > 1 or not came.are_all else ""
    why = f"it was due at {in_utc(missed[-1])}{many}, but noticed more than {PATIENCE:g} s late"
    if missed[-1] != came.times[-1]:
        why = f"it was due at {in_utc(missed[-1])}{many}, and a later time has come"
    name, item = chain_and_item(chain)
    return (
        RecordFiring(
            chain=name,
            at=given.at,
            fired_by=_key(item, missed[-1]),
            event=EVENT,
            result=MISSED,
            why=why,
            run=None,
            due_at=missed[-1],
        ),
        Explain(_about(chain), "refused", f"a firing is missed: {why}", {"reason": MISSED}),
    )


def define_schedule(event: ScheduleChanged, given: Given) -> Deciding:
    """The file of a chain gives other times: the next one is found, and a timer waits for it.

    What counts is what the file says now: it may have changed again.
    """
    standing = yield from ask(ScheduleOf(event.chain))
    scheduled = yield from ask(ScheduleIn(event.chain))
    subject = _about(event.chain)
    if scheduled is None:
        if standing is None or standing.words is None:
            return ()
        gone = SetSchedule(event.chain, given.at, ScheduleStanding(None, given.at))
        return gone, Explain(subject, "decided", "it no longer has a schedule")
    # A schedule with unchanged text continues with its counts. One with changed text begins again.
    if standing is None or standing.words != scheduled.words:
        standing = ScheduleStanding(scheduled.words, given.at)
    due = scheduled.schedule.times.next_after(given.at, standing.since)
    if scheduled.schedule.max_runs is not None and standing.runs >= scheduled.schedule.max_runs:
        due = None
    following = "nothing is due now" if due is None else f"it is due next at {in_utc(due)}"
    return (
        *until(event.chain, scheduled, standing._replace(due=due, timer=None), given),
        Explain(subject, "decided", f"its schedule is {scheduled.schedule.times.text!r}: {following}"),
    )


def ring_timer(event: TimerSet, given: Given) -> Effects:
    """A timer is due: its subject is notified, in the subject's own lane."""
    # Timers measure what has passed, whatever the wall clock did. A schedule goes by the wall clock itself.
    if event.subject.startswith(SCHEDULE) and given.at < event.due:
        raise NotYet(event.due)
    return (Emit(TimerRang(event.subject, event.what, given.at)),)


def until(chain: str, scheduled: Scheduled, standing: ScheduleStanding, given: Given) -> tuple[Effect, ...]:
    """Wait until `due` plus the seconds by which that firing is put off. With None no further firing comes."""
    due = standing.due
    if due is None:
        return (SetSchedule(chain, given.at, standing),)
    following = scheduled.schedule.times.next_after(due, standing.since)
    rings = due + scheduled.schedule.put_off(chain, due, following)
    # The event's hash makes the timer's name new each time. The same time may be set again after a changed file, and
    # the key of a timer counts once.
    timer = f"{due!r} {given.event_hash[:16]}"
    return (
        SetSchedule(chain, given.at, standing._replace(timer=timer)),
        Emit(TimerSet(f"{SCHEDULE}{chain}", timer, given.at, rings)),
    )
