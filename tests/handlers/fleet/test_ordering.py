"""A step that another host shall run: ordered by its name and values, and continued with what became of the order."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.handlers.chains.test_machine import decided, of

from runward.config.chain import read_chain
from runward.config.json_value import JsonValue
from runward.config.step import Callables
from runward.handlers.chains import continuing, elsewhere, firing
from runward.handlers.chains.advancing import run_id
from runward.handlers.fleet import ordering
from runward.handlers.model.asking import Given
from runward.handlers.model.chains import (
    RUNS_ELSEWHERE,
    WAITS_FOR_HOST,
    ChainFired,
    ChainFiresNow,
    ChainRunCancelRequested,
    ChainRunOf,
    ChainRunStanding,
    FiringsOf,
    OpenRunsOf,
    SayMore,
    SetChainRun,
    SetStep,
    SlotsNow,
    SlotsStanding,
    StepResult,
    StepStanding,
    slots_after,
)
from runward.handlers.model.effects import Effect, Emit
from runward.handlers.model.fleet import (
    MOST_OUTCOME,
    TOO_LATE,
    CancelOrder,
    Offer,
    OffersOf,
    OwnHost,
    PlaceOrder,
    RemoteStepBegun,
    RemoteStepOver,
    RemoteStepTaken,
    SettleOrder,
    Try,
    run_of_order,
)
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.schedules import TimerRang, TimerSet

TEXT = """\
name: nightly
trigger: {event: data.ready}
timeout: 1d
steps:
  - {id: train, skill: train, host: gpu-box, with: {data: "{{ trigger.data }}"}, start_within: 2h}
  - {id: tell, skill: tell, with: {said: "{{ steps.train.outcome.score }}"}}
"""
CHAIN = read_chain(TEXT, "nightly.yaml", Callables(("tell",))).value
assert CHAIN is not None
DEFINITION = CHAIN.definition
FIRED = ChainFired("nightly", 1.0, "request", "data.ready", "id", {"data": "{{ x }}"}, DEFINITION)
RUN = run_id(FIRED.key)
ORDER = f"{RUN}-0-1"
GIVEN = Given("hash", 5.0)
NOT_YET: dict[Any, object] = {
    ChainFiresNow("nightly"): None,
    ChainRunOf(RUN): None,
    FiringsOf("nightly"): (),
    OpenRunsOf("nightly"): (),
    OwnHost(): "laptop",
    OffersOf("skill", "train"): (),
}
WAITS = StepStanding(0, "waiting", WAITS_FOR_HOST)
RUNS = StepStanding(0, "running", RUNS_ELSEWHERE)


def stands(step: StepStanding, deadline: float | None = None) -> ChainRunStanding:
    return ChainRunStanding(
        id=RUN,
        chain="nightly",
        status="running",
        definition=DEFINITION,
        trigger={"data": "x"},
        fired_by="request",
        reason_code="chain.running.started",
        reason_summary="",
        deadline=deadline,
        steps={0: step},
        created_at=1.0,
    )


def of_step(effects: tuple[Effect, ...]) -> list[tuple[str, str | None]]:
    return [
        (each.standing.status, each.standing.reason)
        for each in of(SetStep, effects)
        if each.standing.step == 0
    ]


def over(
    step: StepStanding, result: JsonValue, end: Any = "ended", **declined: JsonValue
) -> tuple[Effect, ...]:
    event = RemoteStepOver("r", 4.0, ORDER, end, "gpu-box", result, declined)
    return decided(ordering.step_over(event, GIVEN), {ChainRunOf(RUN): stands(step)})


def test_a_step_with_a_host_is_ordered_by_its_name_and_values_and_starts_nothing_here() -> None:
    effects = decided(firing.open_run(FIRED, GIVEN), NOT_YET)
    (order,) = of(PlaceOrder, effects)
    assert (order.of, order.host, order.skill, order.begin_within) == (
        Try(RUN, 0, 1),
        "gpu-box",
        "train",
        7200.0,
    )
    assert isinstance(order.body, dict)
    assert (order.body["kind"], order.body["name"], order.body["with"]) == (
        "skill",
        "train",
        {"data": "{{ x }}"},
    )
    assert order.body["secret"] == GIVEN.event_hash
    assert of_step(effects) == [("waiting", WAITS_FOR_HOST)]
    assert of(StartRun, effects) == []
    assert [each.event.what for each in of(Emit, effects) if isinstance(each.event, TimerSet)][
        -1
    ] == "host 0 1 7205.0"


def _fired_with(data: JsonValue) -> tuple[Effect, ...]:
    fired = ChainFired("nightly", 1.0, "request", "data.ready", "id", {"data": data}, DEFINITION)
    return decided(firing.open_run(fired, GIVEN), NOT_YET)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            ["x" * 1024] * 1024,
            "with, env and cwd have 1028 KiB together, and at most 896 KiB can go to another host",
        ),
        # As PostgreSQL writes it, it has 308 zeros.
        ([1e308] * 3000, "the largest is with.data (911 KiB): give it less"),
        ("a\0b", "with.data has a NUL character"),
        ({"\ud800": 1}, "with.data has a NUL character or half a character in it"),
    ],
)
def test_what_the_database_would_refuse_for_ever_is_not_ordered(data: JsonValue, why: str) -> None:
    effects = _fired_with(data)
    assert of(PlaceOrder, effects) == []
    assert of_step(effects) == [("failed", "run.failed.not_started")]
    (step, *_) = of(SetStep, effects)
    assert why in str(step.reason_summary)


def test_as_much_as_the_database_takes_is_ordered_in_whatever_letters() -> None:
    (order,) = of(PlaceOrder, _fired_with(["\N{CYRILLIC SMALL LETTER ZHE}" * 1024] * 400))
    assert isinstance(order.body, dict)


def test_a_step_with_labels_is_ordered_from_any_host_that_has_them_all() -> None:
    chain = read_chain(TEXT.replace("gpu-box", "{label: [gpu, large]}"), "nightly.yaml", Callables(("tell",)))
    assert chain.value is not None
    fired = ChainFired("nightly", 1.0, "request", "data.ready", "id", {"data": "x"}, chain.value.definition)
    effects = decided(firing.open_run(fired, GIVEN), NOT_YET)
    (order,) = of(PlaceOrder, effects)
    assert (order.host, order.labels) == (None, ("gpu", "large"))
    (step,) = of(SetStep, effects)
    waits = "step train waits for a host with the labels gpu, large; "
    assert step.reason_summary == waits + "no host that is known here accepts it from this one"
    offers = (
        Offer("gpu-box", ("gpu", "large", "red"), 1_800_000_000.4, "h"),
        Offer("new", ("large", "gpu"), None, "h"),
        Offer("small", ("gpu",), 1.0, "h"),
    )
    effects = decided(firing.open_run(fired, GIVEN), {**NOT_YET, OffersOf("skill", "train"): offers})
    (step,) = of(SetStep, effects)
    could = "gpu-box (last seen 2027-01-15T08:00:00Z), new (never seen) could run it"
    assert step.reason_summary == waits + could


def test_a_step_with_a_host_fails_where_there_is_no_fleet() -> None:
    effects = decided(firing.open_run(FIRED, GIVEN), {**NOT_YET, OwnHost(): None})
    assert of_step(effects) == [("failed", "run.failed.not_started")]
    assert of(PlaceOrder, effects) == []


def test_a_step_whose_host_is_given_up_fails_and_says_by_whom_and_that_it_may_have_begun() -> None:
    effects = over(RUNS, None, "given_up", laptop="it was stolen")
    assert of_step(effects)[-1] == ("failed", "step.failed.host_lost")
    why = "gpu-box will not come back, says laptop: it was stolen; it may have begun there"
    assert why in [each.reason_summary for each in of(SetStep, effects)]
    assert len(of(SettleOrder, effects)) == 1


def test_a_step_that_another_host_runs_has_no_slot_here() -> None:
    assert slots_after(SlotsStanding(), SetStep(RUN, 1.0, RUNS, None)) == SlotsStanding()
    here = StepStanding(0, "running", None, "native:runs/x")
    assert slots_after(SlotsStanding(), SetStep(RUN, 1.0, here, None)).running == {(RUN, 0)}


TAKEN = RemoteStepTaken("r", 4.0, ORDER, "gpu-box", 1, taken_at=1_800_000_000.4)
BEGUN = RemoteStepBegun("b", 4.0, ORDER, "gpu-box", 1)
SESSION = run_of_order("laptop", ORDER, 1)
WAS_TAKEN = StepResult(host="gpu-box", session=SESSION, taken_at=1_800_000_000.4, began_there="unknown")
TOOK = RUNS._replace(result=WAS_TAKEN)
BEGAN = RUNS._replace(result=WAS_TAKEN._replace(began_there="yes"))


def told(event: RemoteStepTaken | RemoteStepBegun, step: StepStanding) -> tuple[Effect, ...]:
    deciding = (
        ordering.step_taken(event, GIVEN)
        if isinstance(event, RemoteStepTaken)
        else ordering.step_begun(event, GIVEN)
    )
    return decided(deciding, {ChainRunOf(RUN): stands(step), OwnHost(): "laptop"})


def test_a_taken_order_is_told_with_host_session_and_time_and_a_second_report_says_nothing() -> None:
    effects = told(TAKEN, WAITS)
    (step,) = of(SetStep, effects)
    assert of_step(effects) == [("running", RUNS_ELSEWHERE)]
    assert step.reason_summary == f"gpu-box took step train at 2027-01-15T08:00:00Z ({SESSION})"
    assert step.standing.result == WAS_TAKEN
    for now in (TOOK, BEGAN, RUNS, RUNS._replace(status="completed", reason="c"), WAITS._replace(attempt=2)):
        assert told(TAKEN, now) == ()


@pytest.mark.parametrize("before", [TOOK, RUNS, WAITS], ids=["taken", "taken earlier", "not known yet"])
def test_a_step_runs_there_once_its_taker_says_that_it_begins(before: StepStanding) -> None:
    effects = told(BEGUN, before)
    (step,) = of(SetStep, effects)
    assert of_step(effects) == [("running", RUNS_ELSEWHERE)]
    assert step.reason_summary == f"step train runs on gpu-box ({SESSION})"
    assert (step.standing.result.began_there, step.standing.result.session) == ("yes", SESSION)
    assert told(BEGUN, step.standing) == told(BEGUN, before._replace(attempt=2)) == ()


def test_the_chain_run_continues_with_the_result_also_if_nobody_said_that_it_was_taken() -> None:
    result: JsonValue = {
        "format": 1,
        "status": "completed",
        "reason": "run.completed.ok",
        "outcome": {"score": "ten"},
        "exit_code": 0,
        "delivery": "passed",
    }
    for step, before in ((RUNS, []), (WAITS, [("running", RUNS_ELSEWHERE)])):
        effects = over(step, result)
        assert of_step(effects) == [*before, ("completed", "run.completed.ok")]
        (start,) = of(StartRun, effects)
        assert start.command == ("tell", "ten")
        assert of(SettleOrder, effects) == [SettleOrder(ORDER, 5.0)]


def test_later_steps_see_the_names_of_the_artifacts_that_stayed_there() -> None:
    entry: JsonValue = {"id": "model", "path": "out/model.bin", "size": 7}
    result: JsonValue = {
        "status": "completed",
        "reason": "run.completed.ok",
        "artifacts": [entry, "nonsense"],
    }
    step = next(each for each in of(SetStep, over(RUNS, result)) if each.standing.step == 0)
    assert step.standing.result.artifacts == {"model": "out/model.bin"}


def test_later_steps_see_which_host_ran_a_step_and_its_session_there() -> None:
    text = TEXT.replace("steps.train.outcome.score", "steps.train.host }} {{ steps.train.session_id")
    chain = read_chain(text, "nightly.yaml", Callables(("tell",))).value
    assert chain is not None
    run = stands(RUNS)._replace(definition=chain.definition)
    result: JsonValue = {"status": "completed", "reason": "run.completed.ok", "session": "fl_1-1"}
    event = RemoteStepOver("r", 4.0, ORDER, "ended", "gpu-box", result, {})
    (start,) = of(StartRun, decided(ordering.step_over(event, GIVEN), {ChainRunOf(RUN): run}))
    assert start.command == ("tell", "gpu-box fl_1-1")


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        {},
        {"status": "running", "reason": "run.completed.ok"},
        {"status": "completed", "reason": "\x1b[31m"},
        {"status": ["completed"], "reason": "run.completed.ok"},
        {"status": "completed", "reason": None},
        {"status": "completed", "reason": "run.completed.ok", "outcome": "a text"},
        {"status": "completed", "reason": "run.completed.ok", "outcome": {"x": "y" * MOST_OUTCOME}},
    ],
)
def test_a_result_that_is_none_ends_the_step_as_failed(result: JsonValue) -> None:
    effects = over(RUNS, result)
    assert of_step(effects) == [("failed", ordering.UNREADABLE)]
    assert [each.status for each in of(SetChainRun, effects)] == ["failed"]
    assert of(SettleOrder, effects)


def test_an_outcome_that_stayed_at_its_host_is_said_to_be_too_long() -> None:
    result: JsonValue = {"status": "completed", "reason": "run.completed.ok", "outcome_is_too_long": True}
    step = next(each for each in of(SetStep, over(RUNS, result)) if each.standing.step == 0)
    assert step.reason_summary == "its outcome is too long to come back from gpu-box"


def test_how_a_step_failed_is_said_in_few_words_whatever_its_host_wrote() -> None:
    sessions: list[JsonValue] = ["x" * 1_000_000, {"a": "b" * 100_000}, None]
    for session in sessions:
        result: JsonValue = {"status": "failed", "reason": "run.failed.exit_code", "session": session}
        (step,) = (each for each in of(SetStep, over(RUNS, result)) if each.standing.step == 0)
        assert len(str(step.reason_summary)) < 5_000


def test_a_declined_order_fails_with_the_reason_of_each_host() -> None:
    effects = over(WAITS, None, "declined", **{"gpu-box": "no [[fleet.accept]]"})
    assert of_step(effects) == [("failed", ordering.DECLINED)]
    assert of(SetStep, effects)[0].reason_summary == "no host begins it: gpu-box: no [[fleet.accept]]"


def test_the_end_of_an_order_whose_step_is_over_is_settled_and_changes_nothing() -> None:
    gone: Mapping[Any, object] = {ChainRunOf(RUN): None}
    event = RemoteStepOver("r", 4.0, ORDER, "ended", "gpu-box", None, {})
    assert decided(ordering.step_over(event, GIVEN), gone) == (SettleOrder(ORDER, 5.0),)
    for step in (RUNS._replace(status="timed_out", reason="x"), RUNS._replace(attempt=2)):
        assert over(step, None) == (SettleOrder(ORDER, 5.0),)
    stray = RemoteStepOver("r", 4.0, "nonsense", "ended", "gpu-box", None, {})
    assert decided(ordering.step_over(stray, GIVEN), {}) == (SettleOrder("nonsense", 5.0),)


RANG = TimerRang(RUN, "host 0 1 5.0", 5.0)
SEEN = (Offer("gpu-box", (), 1_800_000_300.0, "h"), Offer("farm", (), 1.0, "h"))
SILENT = "gpu-box took it at 2027-01-15T08:00:00Z and has not said that it began it"
IT_MAY = "it may have begun there; that host is told never to begin it, or to end it"
WITHIN = "step train could not begin within 7200 s (start_within); "


def rang(step: StepStanding, what: str = "host 0 1 5.0", at: float = 5.0) -> tuple[Effect, ...]:
    event = TimerRang(RUN, what, at)
    answers = {ChainRunOf(RUN): stands(step), OffersOf("skill", "train"): SEEN}
    return decided(continuing.advance_after_timer(event, Given("hash", at)), answers)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            WAITS,
            elsewhere._NOT_KNOWN,
        ),
        (
            TOOK,
            f"{SILENT} (gpu-box was last seen at 2027-01-15T08:05:00Z): {IT_MAY}",
        ),
    ],
    ids=["not taken", "taken by a silent host"],
)
@pytest.mark.parametrize("timer", ["host 0 1 5.0", "host 0 1"], ids=["now", "as an older Runward set it"])
def test_a_step_that_is_not_known_to_have_begun_in_time_ends_and_its_order_is_cancelled(
    step: StepStanding, why: str, timer: str
) -> None:
    effects = rang(step, timer)
    assert of_step(effects) == [("timed_out", continuing.WAITED)]
    assert of(CancelOrder, effects) == [CancelOrder(Try(RUN, 0, 1), 5.0)]
    (over,) = (each for each in of(SetStep, effects) if each.standing.step == 0)
    assert over.reason_summary == WITHIN + why
    assert (over.standing.result.began_there, over.standing.result.is_in_doubt) == ("unknown", True)
    assert [each.status for each in of(SetChainRun, effects)] == ["timed_out"]


@pytest.mark.parametrize(
    "step",
    [BEGAN, RUNS, TOOK._replace(attempt=2), RUNS._replace(status="completed", reason="run.completed.ok")],
    ids=["it begins", "an older Runward recorded that it was taken", "another try", "it is over"],
)
def test_start_within_ends_nothing_that_has_begun_there(step: StepStanding) -> None:
    assert rang(step) == ()


def test_other_timers_end_nothing_that_another_host_shall_run() -> None:
    for timer in ("begin 0 1", "turn 0 1"):
        assert rang(WAITS, timer) == rang(TOOK, timer) == ()


def test_a_host_that_slept_over_the_time_hears_first_what_became_of_the_step() -> None:
    effects = rang(TOOK, at=3600.0)
    assert of(SetStep, effects) == of(CancelOrder, effects) == []
    (timer,) = (each.event for each in of(Emit, effects))
    assert (timer.what, timer.due) == ("host 0 1 3660.0", 3660.0)
    assert of_step(rang(TOOK, timer.what, 3661.0)) == [("timed_out", continuing.WAITED)]
    assert rang(BEGAN, timer.what, 3661.0) == ()


@pytest.mark.parametrize(
    ("on", "then"),
    [("", []), (', on: ["step.timed_out.*"]', [("waiting", None)])],
    ids=["by default", "if retry names the reason"],
)
def test_a_step_that_could_not_begin_is_tried_again_only_if_its_retry_says_so(
    on: str, then: list[tuple[str, None]]
) -> None:
    text = TEXT.replace("start_within: 2h}", f"start_within: 2h, retry: {{attempts: 2{on}}}}}")
    chain = read_chain(text, "nightly.yaml", Callables(("tell",))).value
    assert chain is not None
    run = stands(TOOK)._replace(definition=chain.definition)
    answers: Mapping[Any, object] = {ChainRunOf(RUN): run, OffersOf("skill", "train"): ()}
    effects = decided(continuing.advance_after_timer(RANG, GIVEN), answers)
    assert of_step(effects) == [("timed_out", continuing.WAITED), *then]


DOUBT = StepResult(began_there="unknown", is_in_doubt=True)
WAITED = StepStanding(0, "timed_out", continuing.WAITED, result=DOUBT)


def over_with(end: Any, result: JsonValue = None, **declined: JsonValue) -> RemoteStepOver:
    return RemoteStepOver("r", 4.0, ORDER, end, "gpu-box", result, declined)


LATER: list[tuple[Any, str, str]] = [
    (over_with("withdrawn"), "no", "it never began: nobody had taken it"),
    (
        over_with("withdrawn", farm="it is cancelled"),
        "no",
        "it never began: no host began it: farm: it is cancelled",
    ),
    (over_with("declined", farm="no"), "no", "it never began: no host began it: farm: no"),
    (
        TAKEN,
        "unknown",
        f"{SILENT}: {IT_MAY}",
    ),
    (
        BEGUN,
        "yes",
        f"it began on gpu-box ({SESSION}); that host is told to end it",
    ),
    (
        over_with(
            "ended", {"status": "cancelled", "reason": "run.cancelled.user", "session": "fl_1", "began": True}
        ),
        "yes",
        "it began on gpu-box and ended cancelled there (run.cancelled.user, fl_1)",
    ),
    (
        over_with(
            "ended", {"status": "cancelled", "reason": "run.cancelled.user", "session": "fl_1", "began": None}
        ),
        "unknown",
        "gpu-box ended it as cancelled (run.cancelled.user): had it begun, it was stopped (fl_1)",
    ),
    (
        over_with("ended", {"status": "completed", "reason": "run.completed.ok", "session": "fl_1"}),
        "yes",
        "it began on gpu-box and ended completed there (run.completed.ok, fl_1)",
    ),
    (
        over_with("ended", "nonsense"),
        "unknown",
        "gpu-box reported a result that this Runward can't read: it may have begun there",
    ),
    (
        over_with("given_up", laptop="stolen"),
        "unknown",
        "gpu-box will not come back, says laptop: stolen; it may have begun there",
    ),
]


@pytest.mark.parametrize(("event", "began", "known"), LATER)
@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (continuing.WAITED, "step train could not begin within 7200 s (start_within)"),
        ("run.timed_out.deadline", "the time limit of the whole run has passed"),
        ("run.cancelled.user", "its chain run was cancelled"),
    ],
)
def test_what_became_of_a_step_that_ended_in_doubt_is_said_once_it_is_known(
    event: Any, began: str, known: str, reason: str, why: str
) -> None:
    step = WAITED._replace(reason=reason)
    if isinstance(event, RemoteStepOver):
        effects = decided(ordering.step_over(event, GIVEN), {ChainRunOf(RUN): stands(step)})
        assert len(of(SettleOrder, effects)) == 1
    else:
        effects = told(event, step)
    (more,) = of(SayMore, effects)
    assert more.reason_summary == f"{why}; {known}"
    assert (more.standing.status, more.standing.reason) == (step.status, step.reason)
    assert more.standing.result.began_there == began
    assert more.standing.result.is_in_doubt is not isinstance(event, RemoteStepOver)
    assert of(SetStep, effects) == of(SetChainRun, effects) == []
    # What is over is said once.
    if isinstance(event, RemoteStepOver):
        again = {ChainRunOf(RUN): stands(more.standing)}
        assert decided(ordering.step_over(event, GIVEN), again) == (SettleOrder(ORDER, 5.0),)


def test_a_step_whose_taker_came_back_too_late_never_began() -> None:
    effects = over(TOOK, None, "declined", **{"gpu-box": TOO_LATE})
    assert of_step(effects) == [("timed_out", continuing.WAITED)]
    (step,) = (each for each in of(SetStep, effects) if each.standing.step == 0)
    assert step.reason_summary == f"{WITHIN}it never began: gpu-box: {TOO_LATE}"
    assert step.standing.result.began_there == "no"


def test_the_deadline_of_the_run_ends_a_step_on_another_host_and_says_that_it_may_have_begun() -> None:
    rang = TimerRang(RUN, "deadline", 4.0)
    for step, why in (
        (WAITS, elsewhere._NOT_KNOWN),
        (
            TOOK,
            f"{SILENT} (gpu-box was last seen at 2027-01-15T08:05:00Z): {IT_MAY}",
        ),
        (
            BEGAN,
            f"it began on gpu-box ({SESSION}); that host is told to end it",
        ),
    ):
        effects = decided(
            continuing.advance_after_timer(rang, GIVEN),
            {ChainRunOf(RUN): stands(step, deadline=4.0), OffersOf("skill", "train"): SEEN},
        )
        assert of_step(effects) == [("timed_out", "run.timed_out.deadline")]
        assert of(CancelOrder, effects)
        over = of(SetStep, effects)[0]
        assert over.reason_summary == f"the time limit of the whole run has passed; {why}"
        assert over.standing.result.is_in_doubt


def test_cancelling_the_chain_run_cancels_the_order() -> None:
    event = ChainRunCancelRequested("c", 1.0, RUN)
    for step in (WAITS, TOOK, BEGAN):
        effects = decided(
            continuing.cancel_run(event, GIVEN),
            {
                ChainRunOf(RUN): stands(step),
                OffersOf("skill", "train"): SEEN,
                SlotsNow(): SlotsStanding(),
            },
        )
        assert str(of(SetStep, effects)[0].reason_summary).startswith("its chain run was cancelled; ")
        assert of_step(effects) == [("cancelled", "run.cancelled.user")]
        assert of(CancelOrder, effects) == [CancelOrder(Try(RUN, 0, 1), 5.0)]
