"""The time for a whole chain run has passed: what waits to begin never begins, whatever comes before the timer."""

from typing import Any

import pytest
from tests.handlers.chains.test_machine import GIVEN, RUN, TEXT, changed, decided, of, stands

from runward.handlers.chains import continuing, firing
from runward.handlers.chains.advancing import ASKED, STARTED, WAITS
from runward.handlers.model.approvals import ApprovalDecided
from runward.handlers.model.chains import (
    WAITS_FOR_SLOT,
    ChainRunOf,
    ChainRunTurn,
    SetChainRun,
    SetStep,
    SlotOffered,
    StepStanding,
)
from runward.handlers.model.effects import Deciding
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.schedules import TimerRang

CLEANING = changed(TEXT + "on_failure:\n  - {id: note, skill: merge}\n")
TURN = ChainRunTurn(RUN, 1.0, "cr_before")
TRY = TimerRang(RUN, "try 0 1", 1.0)
OFFER = SlotOffered(RUN, 0, 1, 1.0, "by")


def answered(decision: Any) -> Deciding:
    return continuing.advance_after_decision(ApprovalDecided("ap_1", RUN, 0, 1.0, decision, "", "ada"), GIVEN)


@pytest.mark.parametrize(
    ("decide", "status", "reason", "code"),
    [
        (lambda: firing.begin_in_turn(TURN, GIVEN), "waiting", None, WAITS),
        (lambda: continuing.advance_after_timer(TRY, GIVEN), "waiting", None, STARTED),
        (lambda: continuing.take_slot(OFFER, GIVEN), "waiting", WAITS_FOR_SLOT, STARTED),
        (lambda: answered("approved"), "waiting_approval", None, ASKED),
        (lambda: answered("changed"), "waiting_approval", None, ASKED),
    ],
)
@pytest.mark.parametrize("is_late", [True, False])
def test_what_waits_ends_once_the_time_of_its_run_is_over(
    decide: Any, status: Any, reason: str | None, code: str, is_late: bool
) -> None:
    deadline = GIVEN.at if is_late else GIVEN.at + 1.0
    waits = {0: StepStanding(0, status, reason, None, 1, None)}
    run = stands(waits, "waiting_approval" if code == ASKED else "running", CLEANING, code, deadline)
    effects = decided(decide(), {ChainRunOf(RUN): run})
    (start,) = of(StartRun, effects)
    if is_late:
        assert (start.command, start.timeout) == (("merge",), None)
        ended, _ = of(SetStep, effects)
        assert (ended.standing.step, ended.standing.status, ended.standing.reason) == (
            0,
            "timed_out",
            "run.timed_out.deadline",
        )
        assert [each.reason_code for each in of(SetChainRun, effects)] == ["chain.timed_out.deadline"]
    else:
        assert (start.command, start.timeout) == (("review", "7"), 1.0)
