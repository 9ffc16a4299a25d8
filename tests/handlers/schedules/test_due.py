"""What becomes of the times of a schedule: fired, put off, missed, recovered."""

from typing import Any

import pytest
from tests.handlers.chains.test_machine import decided, of

from runward.config.chain import read_chain
from runward.config.schedule import Misfire, Schedule, parse_times
from runward.config.step import Callables
from runward.handlers import schedules
from runward.handlers.model.asking import Given
from runward.handlers.model.chains import ChainNamed, RecordFiring, TriggerMatched
from runward.handlers.model.effects import Emit
from runward.handlers.model.schedules import (
    LOST,
    ScheduleChanged,
    Scheduled,
    ScheduleIn,
    ScheduleOf,
    ScheduleStanding,
    SetSchedule,
    TimerRang,
    TimerSet,
)

TEXT = "name: tick\ntrigger: {schedule: every 1min, timezone: UTC}\nsteps: [{skill: say}]\n"
CHAIN = read_chain(TEXT, "tick.yaml", Callables(("say",))).value
assert CHAIN is not None
SINCE = 1000.0


def rang(
    now: float,
    misfire: Misfire = "skip",
    patience: float = schedules.PATIENCE,
    max_runs: int | None = None,
    first: float = SINCE + 60,
    what: str = "it",
    is_there: bool = True,
) -> tuple[Any, ...]:
    """What follows when the timer of `first` rings at `now`."""
    schedule = Schedule(parse_times("every 1min", "UTC"), misfire=misfire, max_runs=max_runs)
    found = Scheduled(schedule, "w", patience)
    answers: dict[Any, object] = {
        ScheduleOf("tick"): ScheduleStanding("w", SINCE, first, "it", 0, None),
        ScheduleIn("tick"): found if is_there else None,
        ChainNamed("tick"): CHAIN,
    }
    event = TimerRang("schedule:tick", what, now)
    return decided(schedules.fire_what_is_due(event, Given("hash", now)), answers)


def fired(effects: tuple[Any, ...]) -> list[tuple[float | None, str]]:
    events = [each.event for each in of(Emit, effects)]
    return [(each.due_at, each.result) for each in events if not isinstance(each, TimerSet)]


def missed(effects: tuple[Any, ...]) -> list[float | None]:
    return [each.due_at for each in of(RecordFiring, effects)]


@pytest.mark.parametrize(
    ("misfire", "late", "fires", "misses"),
    [
        ("skip", 0.0, [(60.0, schedules.DUE)], []),
        ("skip", 29.0, [(60.0, schedules.DUE)], []),
        ("skip", 31.0, [], [60.0]),
        ("skip", 61.0, [(120.0, schedules.DUE)], [60.0]),
        ("skip", 100.0, [], [120.0]),
        ("run_once", 31.0, [(60.0, schedules.RECOVERY)], []),
        ("run_once", 100.0, [(120.0, schedules.RECOVERY)], [60.0]),
        ("run_all", 100.0, [(60.0, schedules.RECOVERY), (120.0, schedules.RECOVERY)], []),
        (
            "run_all",
            121.0,
            [(60.0, schedules.RECOVERY), (120.0, schedules.RECOVERY), (180.0, schedules.DUE)],
            [],
        ),
    ],
)
def test_a_firing_that_is_late_is_missed_or_recovered_as_its_file_says(
    misfire: Misfire, late: float, fires: list[tuple[float, str]], misses: list[float]
) -> None:
    effects = rang(SINCE + 60 + late, misfire)
    assert fired(effects) == [(SINCE + at, code) for at, code in fires]
    assert missed(effects) == [SINCE + at for at in misses]
    (kept,) = of(SetSchedule, effects)
    assert kept.standing.due == SINCE + 60 * (2 + late // 60)


def test_many_that_were_missed_are_one_line_and_the_last_hundred_are_caught_up() -> None:
    month = 30 * 86400.0
    effects = rang(SINCE + month + 40)
    assert fired(effects) == []
    (line,) = of(RecordFiring, effects)
    assert "more than 100 in all" in line.why
    recovered = fired(rang(SINCE + month + 40, "run_all"))
    assert len(recovered) == schedules.MOST_CAUGHT_UP
    assert recovered[-1][0] == SINCE + month


def test_with_all_the_time_in_the_world_the_newest_counts_as_due() -> None:
    effects = rang(SINCE + 1000, patience=float("inf"))
    assert fired(effects) == [(SINCE + 960, schedules.DUE)]


def test_after_its_last_run_a_schedule_is_over() -> None:
    effects = rang(SINCE + 60, max_runs=1)
    assert len(fired(effects)) == 1
    (kept,) = of(SetSchedule, effects)
    assert (kept.standing.due, kept.standing.timer, kept.standing.runs) == (None, None, 1)
    assert len(fired(rang(SINCE + 260, "run_all", max_runs=2))) == 2


def test_a_timer_of_other_times_finds_nothing_to_do() -> None:
    assert rang(SINCE + 60, what="another") == ()


def test_a_chain_whose_file_went_meanwhile_is_waited_for_no_more() -> None:
    effects = rang(SINCE + 60, is_there=False)
    assert [each.standing.words for each in of(SetSchedule, effects)] == [None]
    assert fired(effects) == []


def changed(standing: ScheduleStanding | None, words: str | None = "w") -> tuple[Any, ...]:
    found = None if words is None else Scheduled(Schedule(parse_times("every 1min", "UTC")), words, 30.0)
    answers: dict[Any, object] = {ScheduleOf("tick"): standing, ScheduleIn("tick"): found}
    return decided(
        schedules.define_schedule(ScheduleChanged("tick", 1.0, words), Given("hash", SINCE)), answers
    )


def test_other_times_are_counted_anew_and_the_same_ones_on() -> None:
    (kept,) = of(SetSchedule, changed(None))
    assert (kept.standing.since, kept.standing.due, kept.standing.runs) == (SINCE, SINCE + 60, 0)
    old = ScheduleStanding("w", SINCE - 30, SINCE - 20, LOST, 4, SINCE - 80)
    (kept,) = of(SetSchedule, changed(old))
    assert (kept.standing.since, kept.standing.due, kept.standing.runs) == (SINCE - 30, SINCE + 30, 4), (
        "after a restore"
    )
    (kept,) = of(SetSchedule, changed(old._replace(words="others")))
    assert (kept.standing.since, kept.standing.runs) == (SINCE, 0)
    (kept,) = of(SetSchedule, changed(old, None))
    assert (kept.standing.words, kept.standing.due, kept.standing.timer) == (None, None, None)
    assert changed(None, None) == ()


def test_the_time_of_a_schedule_inside_a_composite_is_one_of_the_events_that_it_waits_for() -> None:
    schedule = Schedule(parse_times("every 1min", "UTC"))
    answers: dict[Any, object] = {
        ScheduleOf("tick#1"): ScheduleStanding("w", SINCE, SINCE + 60, "it", 0, None),
        ScheduleIn("tick#1"): Scheduled(schedule, "w", schedules.PATIENCE),
        ChainNamed("tick"): CHAIN,
    }
    now = SINCE + 60
    effects = decided(
        schedules.fire_what_is_due(TimerRang("schedule:tick#1", "it", now), Given("hash", now)), answers
    )
    (matched,) = [each.event for each in of(Emit, effects) if isinstance(each.event, TriggerMatched)]
    assert (matched.chain, matched.items, matched.event) == ("tick", (1,), "schedule.fired")
    assert (matched.fired_by, matched.due_at) == ("schedule#1@1970-01-01T00:17:40Z", now)
    (kept,) = of(SetSchedule, effects)
    assert (kept.chain, kept.standing.due) == ("tick#1", now + 60)
