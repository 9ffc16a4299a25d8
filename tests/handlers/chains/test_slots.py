"""Slots: which step begins, which waits, and that no slot is lost or taken twice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.handlers.chains.test_firing import fired
from tests.handlers.chains.test_machine import FIRED, GIVEN, RUN, TEXT, changed, decided, finished, of, stands

from runward.handlers.chains import advancing, continuing
from runward.handlers.chains.advancing import ASKED, WAITS
from runward.handlers.model.approvals import ApprovalDecided
from runward.handlers.model.asking import Given
from runward.handlers.model.chains import (
    WAITS_FOR_SLOT,
    ChainRunCancelRequested,
    ChainRunOf,
    SetChainRun,
    SetStep,
    SlotOffered,
    SlotsNow,
    SlotsStanding,
    StepsAtOnce,
    StepStanding,
    Waiter,
    slots_after,
)
from runward.handlers.model.effects import Emit
from runward.handlers.model.invocations import InvocationOf, StartRun
from runward.handlers.model.schedules import TimerRang, TimerSet
from runward.handlers.model.sessions import SessionOf

ONE: dict[Any, Any] = {StepsAtOnce(): 1}
MINE = frozenset({(RUN, 0)})
TAKEN = SlotsStanding(frozenset({("cr_other", 0)}))
EARLIER = Waiter(-1.0, "cr_early", 0, 1)
LATER = Waiter(99.0, "cr_late", 0, 1)
WAITING = StepStanding(0, "waiting", WAITS_FOR_SLOT, None, 1, None)
HURRIED = changed(TEXT.replace("{id: review,", "{id: review, start_within: 10m,"))
OFFER = SlotOffered(RUN, 0, 1, 4.0, "by")


def fires(slots: SlotsStanding, limit: int = 1, **answers: Any) -> tuple[Any, ...]:
    return fired(more={StepsAtOnce(): limit, SlotsNow(): slots}, **answers)


def offers(effects: tuple[Any, ...]) -> list[str]:
    return [each.event.run for each in of(Emit, effects) if isinstance(each.event, SlotOffered)]


@pytest.mark.parametrize(
    ("slots", "limit", "begins", "passed_on"),
    [
        (SlotsStanding(), 1, True, []),
        (TAKEN, 1, False, []),
        (TAKEN, 2, True, []),
        (SlotsStanding(waiters=(EARLIER,)), 1, False, ["cr_early"]),
        (SlotsStanding(waiters=(EARLIER,)), 2, True, []),
        (SlotsStanding(waiters=(LATER,)), 1, True, []),
    ],
)
def test_a_step_begins_if_a_slot_is_left_after_those_whose_runs_were_fired_before(
    slots: SlotsStanding, limit: int, begins: bool, passed_on: list[str]
) -> None:
    effects = fires(slots, limit)
    assert len(of(StartRun, effects)) == begins
    (step,) = of(SetStep, effects)
    assert (step.standing.status, step.standing.reason) == (
        ("running", None) if begins else ("waiting", WAITS_FOR_SLOT)
    )
    assert step.fired_at == (0.0 if begins else GIVEN.at)
    assert offers(effects) == passed_on


def test_the_next_step_of_a_run_takes_the_slot_of_the_one_before_unless_another_comes_first() -> None:
    alone = finished(answers={**ONE, SlotsNow(): SlotsStanding(MINE)})
    assert len(of(StartRun, alone)) == 1
    assert offers(alone) == []
    effects = finished(answers={**ONE, SlotsNow(): SlotsStanding(MINE, (EARLIER, LATER))})
    assert of(StartRun, effects) == []
    assert offers(effects) == ["cr_early"]


def test_the_end_of_a_run_passes_its_slot_on() -> None:
    effects = finished("failed", answers={**ONE, SlotsNow(): SlotsStanding(MINE, (LATER,))})
    assert [each.status for each in of(SetChainRun, effects)] == ["failed"]
    assert offers(effects) == ["cr_late"]
    cancelled = finished(run_status="cancelled", answers={**ONE, SlotsNow(): SlotsStanding(MINE, (LATER,))})
    assert offers(cancelled) == ["cr_late"]


def test_so_does_a_step_that_is_cancelled_before_it_began() -> None:
    key = f"native:runs/{RUN}-0-1"
    run = stands({0: StepStanding(0, "running", None, key, 1, None)})
    known = {ChainRunOf(RUN): run, SessionOf(key): None, SlotsNow(): SlotsStanding(MINE, (LATER,)), **ONE}
    known[InvocationOf(key)] = None
    assert offers(decided(continuing.cancel_run(ChainRunCancelRequested("r", 4.0, RUN), GIVEN), known)) == [
        "cr_late"
    ]


def offer(run: Any, slots: SlotsStanding, **more: Any) -> tuple[Any, ...]:
    return decided(
        continuing.take_slot(OFFER, GIVEN), {ChainRunOf(RUN): run, SlotsNow(): slots, **ONE, **more}
    )


def test_a_step_that_is_offered_a_slot_begins_once() -> None:
    me = Waiter(0.0, RUN, 0, 1)
    effects = offer(stands({0: WAITING}), SlotsStanding(waiters=(me, LATER)))
    assert [each.key for each in of(StartRun, effects)] == [f"{RUN}/0/1/hash"]
    assert offers(effects) == []
    full = offer(stands({0: WAITING}), TAKEN._replace(waiters=(me,)))
    assert full == ()


@pytest.mark.parametrize(
    "run",
    [
        None,
        stands({0: WAITING._replace(status="cancelled")}, status="cancelled"),
        stands({0: WAITING._replace(status="running", reason=None)}),
        stands({0: WAITING._replace(attempt=2)}),
    ],
)
def test_an_offer_to_a_step_that_does_not_wait_any_more_goes_to_the_next(run: Any) -> None:
    effects = offer(run, SlotsStanding(waiters=(LATER,)))
    assert of(StartRun, effects) == []
    assert offers(effects) == ["cr_late"]


def test_a_step_that_can_not_begin_passes_the_slot_on() -> None:
    unknown = stands({0: WAITING})._replace(trigger={})
    effects = offer(unknown, SlotsStanding(waiters=(Waiter(0.0, RUN, 0, 1), LATER)))
    assert [each.status for each in of(SetChainRun, effects)] == ["failed"]
    assert offers(effects) == ["cr_late"]


def timers(effects: tuple[Any, ...]) -> list[tuple[str, float]]:
    return [
        (each.event.what, each.event.due) for each in of(Emit, effects) if isinstance(each.event, TimerSet)
    ]


def rings(run: Any, slots: SlotsStanding = TAKEN) -> tuple[Any, ...]:
    event = TimerRang(RUN, "begin 0 1", 700.0)
    return decided(
        continuing.advance_after_timer(event, GIVEN), {ChainRunOf(RUN): run, SlotsNow(): slots, **ONE}
    )


def test_a_step_waits_for_a_slot_as_long_as_it_may() -> None:
    effects = fires(TAKEN, event=replace(FIRED, definition=HURRIED))
    assert timers(effects) == [("begin 0 1", GIVEN.at + 600.0)]
    assert timers(fires(TAKEN)) == []
    late = rings(stands({0: WAITING}, definition=HURRIED))
    (step,), (run,) = of(SetStep, late), of(SetChainRun, late)
    assert (step.standing.status, step.standing.reason) == ("timed_out", "step.timed_out.start_within")
    assert (run.status, run.reason_code) == ("timed_out", "chain.timed_out.step_timed_out")
    assert "start_within" in run.reason_summary or "review" in run.reason_summary


def test_the_wait_for_the_turn_of_a_run_counts_too_and_ends_the_run() -> None:
    waits = stands({0: WAITING._replace(reason=None)}, definition=HURRIED, code=WAITS)
    (run,) = of(SetChainRun, rings(waits))
    assert run.status == "timed_out"


def test_a_person_who_is_asked_between_the_turn_and_the_slot_does_not_use_up_the_time_to_begin() -> None:
    """Each of the two waits has a timer of its own, as timers of one name are one."""
    gated = changed(TEXT.replace("{id: review,", "{id: review, start_within: 10m, requires_approval: true,"))
    asked = {0: StepStanding(0, "waiting_approval", None, None, 1, None)}
    run = stands(asked, "waiting_approval", gated, ASKED)
    decision = ApprovalDecided("ap_1", RUN, 0, 1.0, "approved", "", "ada")
    known = {ChainRunOf(RUN): run, SlotsNow(): TAKEN, **ONE}
    assert timers(decided(continuing.advance_after_decision(decision, GIVEN), known)) == [
        ("begin 0 1", GIVEN.at + 600.0)
    ]
    turn = TimerRang(RUN, "turn 0 1", 700.0)
    for definition, ends in ((gated, False), (HURRIED, True)):
        waits = {ChainRunOf(RUN): stands({0: WAITING}, definition=definition), SlotsNow(): TAKEN, **ONE}
        assert bool(of(SetStep, decided(continuing.advance_after_timer(turn, GIVEN), waits))) == ends


def test_a_timer_of_a_step_that_has_begun_changes_nothing() -> None:
    begun = WAITING._replace(status="running", reason=None)
    tried_again = WAITING._replace(reason=None)
    for each in (begun, tried_again, WAITING._replace(attempt=2)):
        assert rings(stands({0: each}, definition=HURRIED)) == ()


@given(
    limit=st.integers(1, 4),
    moves=st.lists(
        st.tuples(st.sampled_from(["come", "end", "leave", "deliver"]), st.integers(0, 9)), max_size=60
    ),
)
def test_no_slot_is_taken_twice_and_none_stays_free_while_a_step_waits(
    limit: int, moves: list[tuple[str, int]]
) -> None:
    """A plain model of steps that come, end and leave, over the rules; offers are delivered whenever it pleases."""
    standing, fired_at = SlotsStanding(), 0.0
    offered_to: list[SlotOffered] = []

    def here(run: str, freed: int | None = None) -> advancing.Room:
        asked = advancing.room(run, freed)
        next(asked)
        asked.send(limit)
        try:
            asked.send(standing)
        except StopIteration as end:
            room: advancing.Room = end.value
            return room
        raise AssertionError("it asks more")

    def step(run: str, status: Any, reason: str | None = None, at: float = 0.0) -> None:
        nonlocal standing
        effect = SetStep(run, 0.0, StepStanding(0, status, reason), None, fired_at=at)
        standing = slots_after(standing, effect)

    def passes_on(room: advancing.Room) -> None:
        offered_to.extend(each.event for each in of(Emit, advancing.offer(room, Given("by", 0.0))))

    def deliver(number: int) -> None:
        event = offered_to.pop(number % len(offered_to))
        mine = [each for each in standing.waiters if each.run == event.run]
        room = here(event.run)
        if mine and room.is_for(mine[0]):
            step(event.run, "running")
        else:
            passes_on(room)

    for kind, number in moves:
        if kind == "come":
            fired_at += 1.0
            mine = Waiter(fired_at if number % 2 else -fired_at, f"cr_{fired_at}", 0, 1)
            room = here(mine.run)
            if room.is_for(mine):
                step(mine.run, "running")
            else:
                step(mine.run, "waiting", WAITS_FOR_SLOT, mine.fired_at)
                passes_on(room)
        elif kind == "end" and standing.running:
            run, _ = sorted(standing.running)[number % len(standing.running)]
            passes_on(here(run, 1))
            step(run, "completed")
        elif kind == "leave" and standing.waiters:
            step(standing.waiters[number % len(standing.waiters)].run, "cancelled")
        elif kind == "deliver" and offered_to:
            deliver(number)
        assert len(standing.running) <= limit
    for _ in range(1000):
        if not offered_to:
            break
        deliver(0)
    assert offered_to == []
    assert not standing.waiters or len(standing.running) == limit


def test_an_offer_has_a_key_of_its_own() -> None:
    again = advancing.offer(advancing.Room(1, (LATER,)), Given("other", 1.0))
    assert again != advancing.offer(advancing.Room(1, (LATER,)), GIVEN)
