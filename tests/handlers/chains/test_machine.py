"""From an event to the steps of a chain run: what is started, skipped or refused, and how the run ends."""

from collections.abc import Mapping
from typing import Any

import pytest

from runward.config.chain import read_chain
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook
from runward.handlers.asking import Given, TryLater
from runward.handlers.chains import advance, fire, match, order
from runward.handlers.chains.advancing import run_id
from runward.handlers.chains.effects import ChainRunStatus, OpenChainRun, SetChainRun, SetStep
from runward.handlers.chains.events import ChainFired, ChainFireRequested, EventOccurred, chain_run_of
from runward.handlers.chains.facts import (
    ChainNamed,
    ChainRunOf,
    ChainRunStanding,
    ListenersTo,
    OutcomeIn,
    StepStanding,
)
from runward.handlers.effects import Deciding, Effect, Emit, Explain, StartRun
from runward.handlers.events import SessionFinished, Status
from runward.handlers.facts import Play, PlayOf, Session, SessionOf
from runward.handlers.starts.events import StartFailed
from runward.handlers.unreadable import Unreadable

TEXT = """\
name: pr
trigger: {event: pr.opened, filter: {base: main}}
steps:
  - {id: review, skill: review, with: {pr: "{{ trigger.pr }}"}}
  - {id: merge, skill: merge, condition: "{{ outcome.verdict == 'APPROVE' }}"}
  - {id: tell, skill: tell, with: {said: "{{ steps.merge.status }}"}}
"""
CHAIN = read_chain(TEXT, "pr.yaml", ("review", "merge", "tell")).value
assert CHAIN is not None
assert CHAIN.document is not None
DEFINITION = CHAIN.document.root
GIVEN = Given("hash", 5.0)
FIRED = ChainFired("pr", 1.0, "request", "pr.opened", "id", {"pr": 7}, DEFINITION)
RUN = run_id(FIRED.key)
PLAYBOOKS = {
    "review": Playbook("review", ("review", "{{ with.pr }}"), timeout=60.0),
    "merge": Playbook("merge", ("merge",)),
    "tell": Playbook("tell", ("tell", "{{ with.said }}")),
}


def decided(deciding: Deciding, answers: Mapping[Any, object]) -> tuple[Effect, ...]:
    """What a handler returns that is given these answers."""
    answer: object = None
    while True:
        try:
            question = deciding.send(answer)
        except StopIteration as end:
            effects: tuple[Effect, ...] = end.value
            return effects
        match question:
            case PlayOf(playbook=name):
                answer = answers.get(question, Play(PLAYBOOKS[name], root_name="runs", root_path="/runs"))
            case _:
                answer = answers[question]


def of(kind: type[Any], effects: tuple[Effect, ...]) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


def occurred(**fields: JsonValue) -> EventOccurred:
    return EventOccurred("request", 1.0, "pr.opened", "id", fields, "ada")


def test_an_event_fires_each_chain_whose_filter_it_passes() -> None:
    listening = {ListenersTo("pr.opened"): (CHAIN,)}
    effects = decided(match.decide(occurred(base="main", pr=7), GIVEN), listening)
    assert of(Emit, effects) == [
        Emit(ChainFired("pr", 1.0, "request", "pr.opened", "id", {"base": "main", "pr": 7}, DEFINITION))
    ]
    refused = decided(match.decide(occurred(base="dev"), GIVEN), listening)
    assert of(Emit, refused) == []
    assert of(Explain, refused)[0].verdict == "refused"
    assert decided(match.decide(occurred(), GIVEN), {ListenersTo("pr.opened"): ()}) == ()


def test_a_person_fires_a_chain_whatever_its_trigger() -> None:
    event = ChainFireRequested("request", 1.0, "pr", {"pr": 7}, "ada")
    (emitted,) = of(Emit, decided(order.decide(event, GIVEN), {ChainNamed("pr"): CHAIN}))
    assert (emitted.event.key, emitted.event.event) == ("pr@request", "manual.fired")
    refused = decided(order.decide(event, GIVEN), {ChainNamed("pr"): "there is no chain 'pr'"})
    assert [each.verdict for each in of(Explain, refused)] == ["refused"]


def test_a_fired_chain_opens_a_run_and_starts_its_first_step() -> None:
    effects = decided(fire.decide(FIRED, GIVEN), {ChainRunOf(RUN): None})
    (opened,), (start,), (step,) = of(OpenChainRun, effects), of(StartRun, effects), of(SetStep, effects)
    assert (opened.id, opened.definition, opened.trigger) == (RUN, DEFINITION, {"pr": 7})
    assert (start.key, start.name, start.command, start.timeout) == (
        f"{RUN}/0/1/hash",
        f"{RUN}-0-1",
        ("review", "7"),
        60.0,
    )
    assert chain_run_of(start.session) == RUN
    assert (step.status, step.session_key, step.attempt) == ("running", start.session, 1)


def finished(
    status: Status = "completed",
    outcome: object = None,
    step: int = 0,
    steps: Mapping[int, StepStanding] | None = None,
    run_status: ChainRunStatus = "running",
) -> tuple[Effect, ...]:
    """What follows when the step's session has its verdict."""
    key = f"native:runs/{RUN}-{step}-1"
    running = {step: StepStanding(step, "running", None, key, 1, None)}
    standing = ChainRunStanding(
        RUN, "pr", run_status, DEFINITION, {"pr": 7}, "request", {**(steps or {}), **running}
    )
    session = Session(
        key, "s", "native", "/runs/s", status, 1, "/runs/s/artifacts", None, None, None, 1.0, "live"
    )
    event = SessionFinished(key, 1, 2.0, status, f"run.{status}.why", None)
    return decided(
        advance.decide(event, GIVEN),
        {
            ChainRunOf(RUN): standing,
            SessionOf(key): session,
            OutcomeIn("/runs/s", "/runs/s/artifacts"): outcome,
        },
    )


def test_a_condition_that_holds_starts_the_next_step() -> None:
    effects = finished(outcome={"outcome_kind": "review_verdict", "verdict": "APPROVE"})
    over, begun = of(SetStep, effects)
    assert (over.step, over.status, over.outcome["verdict"]) == (0, "completed", "APPROVE")
    assert (begun.step, begun.status) == (1, "running")
    assert of(StartRun, effects)[0].command == ("merge",)
    assert of(SetChainRun, effects)[0].current_step == 1


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ({"outcome_kind": "review_verdict", "verdict": "REJECT"}, "step.skipped.condition_false"),
        (None, "step.skipped.undefined"),
    ],
)
def test_a_condition_that_does_not_hold_skips_the_step_with_its_reason(outcome: object, reason: str) -> None:
    effects = finished(outcome=outcome)
    _, skipped, begun = of(SetStep, effects)
    assert (skipped.step, skipped.status, skipped.reason_code) == (1, "skipped", reason)
    assert (begun.step, of(StartRun, effects)[0].command) == (2, ("tell", "skipped"))


def test_the_run_is_completed_after_its_last_step() -> None:
    steps = {
        0: StepStanding(0, "completed", None, "a", 1, None),
        1: StepStanding(1, "skipped", None, None, 0, None),
    }
    effects = finished(step=2, steps=steps)
    assert [(each.status, each.reason_code) for each in of(SetChainRun, effects)] == [
        ("completed", "chain.completed.ok")
    ]
    assert of(StartRun, effects) == []


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("failed", "chain.failed.step_failed"),
        ("timed_out", "chain.timed_out.step_timed_out"),
        ("aborted", "chain.aborted.step_aborted"),
        ("cancelled", "chain.cancelled.step_cancelled"),
    ],
)
def test_a_step_that_did_not_complete_ends_the_run_as_it_ended(status: Status, code: str) -> None:
    effects = finished(status)
    assert [(each.status, each.reason_code) for each in of(SetChainRun, effects)] == [(status, code)]
    assert of(StartRun, effects) == []


def test_a_step_that_can_not_be_started_fails_the_run() -> None:
    answers: dict[Any, object] = {
        ChainRunOf(RUN): None,
        PlayOf("review"): Play(None, problem="there is no playbook 'review'"),
    }
    effects = decided(fire.decide(FIRED, GIVEN), answers)
    assert [(each.status, each.reason_code) for each in of(SetStep, effects)] == [
        ("failed", "run.failed.not_started")
    ]
    assert [each.reason_code for each in of(SetChainRun, effects)] == ["chain.failed.step_failed"]


def test_an_outcome_that_can_not_be_read_is_waited_for() -> None:
    with pytest.raises(TryLater):
        finished(outcome=Unreadable("Input/output error"))


def test_a_run_that_is_over_or_a_session_that_no_chain_started_changes_nothing() -> None:
    assert finished(run_status="failed") == ()
    stranger = SessionFinished("native:runs/other", 1, 2.0, "completed", "c", None)
    assert decided(advance.decide(stranger, GIVEN), {}) == ()
    forged = SessionFinished(f"native:elsewhere/{RUN}-0-1", 1, 2.0, "completed", "c", None)
    standing = ChainRunStanding(RUN, "pr", "running", DEFINITION, {}, "r", {})
    assert decided(advance.decide(forged, GIVEN), {ChainRunOf(RUN): standing}) == ()


def test_a_step_that_can_never_begin_fails_its_run() -> None:
    key = f"native:runs/{RUN}-0-1"
    steps = {0: StepStanding(0, "running", None, key, 1, None)}
    run = ChainRunStanding(RUN, "pr", "running", DEFINITION, {"pr": 7}, "request", steps)
    event = StartFailed(f"{RUN}/0/1", key, 9.0, "its run directory can't be made")
    step, ended, said = decided(advance.decide(event, GIVEN), {ChainRunOf(RUN): run})
    assert isinstance(step, SetStep)
    assert (step.status, step.reason_code, step.attempt) == ("failed", "run.failed.not_started", 1)
    assert isinstance(ended, SetChainRun)
    assert (ended.status, ended.reason_code) == ("failed", "chain.failed.step_failed")
    assert isinstance(said, Explain)
    is_over = {ChainRunOf(RUN): run._replace(status="failed")}
    assert decided(advance.decide(event, GIVEN), is_over) == ()


def test_an_event_that_is_told_again_long_after_fires_no_second_run() -> None:
    known = ChainRunStanding(RUN, "pr", "completed", DEFINITION, {"pr": 7}, "request", {})
    assert [type(each) for each in decided(fire.decide(FIRED, GIVEN), {ChainRunOf(RUN): known})] == [Explain]
