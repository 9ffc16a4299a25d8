"""From an event to the steps of a chain run: what is started, skipped or refused, and how the run ends."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import astuple, replace

from runward.config.chain import read_chain
from runward.config.counted_values import Budget
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook
from runward.config.seen import CHAIN_FIELDS, STEP_FIELDS
from runward.config.step import Callables, Step
from runward.handlers.approvals import _left, _Named, answer_approval
from runward.handlers.chains import advancing, continuing, firing
from runward.handlers.chains import firing as changed_status
from runward.handlers.chains.advancing import about, position_of, run_id
from runward.handlers.chains.stepping import given_to, judge, result_of
from runward.handlers.contracts.files import TRIES
from runward.handlers.invocations import of_chain_run, of_try
from runward.handlers.model.approvals import (
    ApprovalOf,
    ApprovalRequested,
    ApprovalStanding,
    FilesLeftIn,
    LeftFile,
    LeftFiles,
    LeftPlace,
)
from runward.handlers.model.asking import Given, TryLater
from runward.handlers.model.chains import (
    ChainFired,
    ChainFireRequested,
    ChainFires,
    ChainFiresNow,
    ChainNamed,
    ChainRunCancelRequested,
    ChainRunOf,
    ChainRunStanding,
    ChainRunStatus,
    ChainStatus,
    ChainStatusRequested,
    EventOccurred,
    FiringsOf,
    IsHeard,
    LaneWaits,
    LeftBy,
    LeftBySession,
    ListenersTo,
    OpenChainRun,
    OpenRunsOf,
    RecordFiring,
    SetChainRun,
    SetChainStatus,
    SetStep,
    SlotsNow,
    SlotsStanding,
    StepResult,
    StepsAtOnce,
    StepStanding,
    chain_run_of,
)
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.model.fleet import HeardElsewhere, OffersOf, OwnHost
from runward.handlers.model.invocations import (
    EndInvocation,
    Invocation,
    InvocationOf,
    OpenInvocation,
    Play,
    PlayOf,
    StartFailed,
    StartRun,
    WithdrawStart,
)
from runward.handlers.model.sessions import AttemptStarted, Session, SessionFinished, SessionOf, Status

TEXT = """\
name: pr
trigger: {event: pr.opened, filter: {base: main}}
steps:
  - {id: review, skill: review, with: {pr: "{{ trigger.pr }}"}}
  - {id: merge, skill: merge, condition: "{{ outcome.verdict == 'APPROVE' }}"}
  - {id: tell, skill: tell, with: {said: "{{ steps.merge.status }}"}}
"""
CHAIN = read_chain(TEXT, "pr.yaml", Callables(("review", "merge", "tell"))).value
assert CHAIN is not None
DEFINITION = CHAIN.definition
GIVEN = Given("hash", 5.0)
FIRED = ChainFired("pr", 1.0, "request", "pr.opened", "id", {"pr": 7}, DEFINITION)
RUN = run_id(FIRED.key)
NOT_YET: dict[Any, object] = {
    ChainFiresNow("pr"): None,
    ChainRunOf(RUN): None,
    FiringsOf("pr"): (),
    OpenRunsOf("pr"): (),
}
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
            case StepsAtOnce():
                answer = answers.get(question, 16)
            case SlotsNow():
                answer = answers.get(question, SlotsStanding())
            case LaneWaits():
                answer = answers.get(question, False)
            case InvocationOf():
                answer = answers.get(question)
            case IsHeard(event="invocation.completed"):
                answer = answers.get(question, False)
            case OwnHost() | HeardElsewhere():
                answer = answers.get(question)
            case OffersOf():
                answer = answers.get(question, ())
            case _:
                answer = answers[question]


def of(kind: type[Any], effects: tuple[Effect, ...]) -> list[Any]:
    return [each for each in effects if isinstance(each, kind)]


def occurred(**fields: JsonValue) -> EventOccurred:
    return EventOccurred("request", 1.0, "pr.opened", "id", fields, "ada")


def test_an_event_fires_each_chain_whose_filter_it_passes() -> None:
    listening = {ListenersTo("pr.opened"): (CHAIN,)}
    effects = decided(firing.fire_what_listens(occurred(base="main", pr=7), GIVEN), listening)
    assert of(Emit, effects) == [
        Emit(
            ChainFired("pr", 1.0, "request", "pr.opened", "id", {"base": "main", "pr": 7}, DEFINITION, "ada")
        )
    ]
    refused = decided(firing.fire_what_listens(occurred(base="dev"), GIVEN), listening)
    assert of(Emit, refused) == []
    assert of(Explain, refused)[0].verdict == "refused"
    assert decided(firing.fire_what_listens(occurred(), GIVEN), {ListenersTo("pr.opened"): ()}) == ()


def test_a_changed_file_fires_the_chains_whose_path_it_matches() -> None:
    text = TEXT.replace("{event: pr.opened, filter: {base: main}}", "{event: file.changed, path: /w/*.md}")
    text = text.replace("trigger.pr", "trigger.path")
    chain = read_chain(text, "pr.yaml", Callables(("review", "merge", "tell"))).value
    assert chain is not None
    for path, count in (("/w/a.md", 1), ("/w/a.txt", 0), ("/w/b/a.md", 0), (7, 0)):
        event = EventOccurred("request", 1.0, "file.changed", "id", {"path": path, "change": "created"})
        effects = decided(firing.fire_what_listens(event, GIVEN), {ListenersTo("file.changed"): (chain,)})
        assert len(of(Emit, effects)) == count


def test_a_person_fires_a_chain_whatever_its_trigger() -> None:
    event = ChainFireRequested("request", 1.0, "pr", {"pr": 7}, "ada")
    (emitted,) = of(Emit, decided(firing.fire_as_asked(event, GIVEN), {ChainNamed("pr"): CHAIN}))
    assert (emitted.event.key, emitted.event.event) == ("pr@request", "manual.fired")
    refused = decided(firing.fire_as_asked(event, GIVEN), {ChainNamed("pr"): "there is no chain 'pr'"})
    assert [each.verdict for each in of(Explain, refused)] == ["refused"]


def test_a_fired_chain_opens_a_run_and_starts_its_first_step() -> None:
    effects = decided(firing.open_run(FIRED, GIVEN), NOT_YET)
    (opened,), (start,), (step,) = of(OpenChainRun, effects), of(StartRun, effects), of(SetStep, effects)
    root, invocation = of(OpenInvocation, effects)
    assert (root.id, root.skill, root.chain_run, root.step) == (of_chain_run(RUN), "chain", RUN, None)
    assert (start.kind, start.invocation_id) == ("step", of_try(RUN, 0, 1))
    assert astuple(invocation)[:-1] == (of_try(RUN, 0, 1), "review", 5.0, start.session, RUN, 0, 1)
    assert invocation.metadata == {"kind": "skill", "step": "review", "with": {"pr": 7}}
    assert (opened.run.id, opened.run.definition, opened.run.trigger) == (RUN, DEFINITION, {"pr": 7})
    assert (start.key, start.name, start.command, start.timeout) == (
        f"{RUN}/0/1/hash",
        f"{RUN}-0-1",
        ("review", "7"),
        60.0,
    )
    assert chain_run_of(start.session) == RUN
    assert (step.standing.status, step.standing.session_key, step.standing.attempt) == (
        "running",
        start.session,
        1,
    )


def stands(
    steps: Mapping[int, StepStanding],
    status: ChainRunStatus = "running",
    definition: JsonValue = DEFINITION,
    code: str = "chain.running.started",
    deadline: float | None = None,
) -> ChainRunStanding:
    return ChainRunStanding(
        RUN, "pr", status, definition, {"pr": 7}, "request", code, "it was fired", deadline, steps, 0.0
    )


NOTHING_LEFT = StepResult()


def finished(
    status: Status = "completed",
    outcome: Mapping[str, JsonValue] | None = None,
    step: int = 0,
    steps: Mapping[int, StepStanding] | None = None,
    run_status: ChainRunStatus = "running",
    definition: JsonValue = DEFINITION,
    code: str = "chain.running.started",
    deadline: float | None = None,
    answers: Mapping[Any, object] | None = None,
    result: StepResult = NOTHING_LEFT,
) -> tuple[Effect, ...]:
    """What follows when the step's session has its verdict."""
    key = f"native:runs/{RUN}-{step}-1"
    running = {step: StepStanding(step, "running", None, key, 1, None)}
    standing = stands({**(steps or {}), **running}, run_status, definition, code, deadline)
    session = Session(
        key, "s", "native", "/runs/s", status, 1, "/runs/s/artifacts", None, None, None, 1.0, "live"
    )
    event = SessionFinished(key, 1, 2.0, status, f"run.{status}.why", None)
    return decided(
        continuing.advance_after_step(event, GIVEN),
        {
            ChainRunOf(RUN): standing,
            SessionOf(key): session,
            LeftBy(key, 1): LeftBySession(outcome, result),
            **(answers or {}),
        },
    )


def test_a_false_condition_says_which_values_it_saw_shortly_and_without_secrets() -> None:
    condition = "{{ trigger.n > 3 and trigger.token and trigger.text and trigger.list and trigger.note and not trigger.nothing }}"
    step, chain = Step(0, "s", condition=condition), about(position_of(stands({}), GIVEN))
    trigger: dict[str, JsonValue] = {
        "n": 2,
        "token": "hunter2 is short",
        "text": "x\x1b[31m" * 100_000,
        "list": [1, 2],
        "note": "ghp_" + "a1B2" * 9,
    }
    judged = judge(step, given_to({**trigger, "nothing": None}, [], chain), Budget())
    assert judged.reason == "step.skipped.condition_false"
    assert str(judged.why).startswith(
        f"its condition {condition} is false; trigger.n is 2, trigger.token is a "
    )
    assert "hunter2" not in str(judged.why)
    assert "a1B2a1B2" not in str(judged.why)
    assert "\x1b" not in str(judged.why)
    assert str(judged.why).endswith("', trigger.nothing is nothing")
    assert "…', trigger.list is a list of 2, trigger.note is '" in str(judged.why)
    assert len(str(judged.why)) < 500
    missing = judge(step, given_to({"n": 2}, [], chain), Budget()).why
    assert missing == "trigger.token is not there: trigger has n; trigger.n is 2"


def test_a_step_that_failed_keeps_the_reason_of_its_session() -> None:
    why = "missing required artifacts: review (Review.md)"
    key = f"native:runs/{RUN}-0-1"
    (step,) = of(SetStep, finished("failed", answers={LeftBy(key, 1): LeftBySession(why=why)}))
    assert (step.standing.status, step.reason_summary) == ("failed", why)
    steps = of(SetStep, finished("completed", answers={LeftBy(key, 1): LeftBySession(why="exited with 0")}))
    assert (steps[0].standing.status, steps[0].reason_summary) == ("completed", None)


def test_a_condition_that_holds_starts_the_next_step() -> None:
    effects = finished(outcome={"outcome_kind": "review_verdict", "verdict": "APPROVE"})
    over, begun = of(SetStep, effects)
    assert (over.standing.step, over.standing.status, over.standing.outcome["verdict"]) == (
        0,
        "completed",
        "APPROVE",
    )
    assert (begun.standing.step, begun.standing.status) == (1, "running")
    assert of(StartRun, effects)[0].command == ("merge",)
    assert of(SetChainRun, effects)[0].current_step == 1


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ({"outcome_kind": "review_verdict", "verdict": "REJECT"}, "step.skipped.condition_false"),
        (None, "step.skipped.undefined"),
    ],
)
def test_a_condition_that_does_not_hold_skips_the_step_with_its_reason(
    outcome: Mapping[str, JsonValue] | None, reason: str
) -> None:
    effects = finished(outcome=outcome)
    _, skipped, begun = of(SetStep, effects)
    assert (skipped.standing.step, skipped.standing.status, skipped.standing.reason) == (1, "skipped", reason)
    assert (begun.standing.step, of(StartRun, effects)[0].command) == (2, ("tell", "skipped"))


LEFT = StepResult("partial", {"status": "failed"}, 3, {"report": "/runs/s/a/r.md"}, [{"summary": "first"}])


def test_a_step_left_what_the_verdict_on_its_session_says() -> None:
    verification: dict[str, JsonValue] = {
        "status": "passed",
        "produced": [{"id": "plan", "path": "out/PLAN.md", "size": 5}],
        "rules": [],
    }
    left = result_of("passed", verification, 3, "/runs/a/artifacts", [{"summary": "first"}])
    assert left.delivery == "passed"
    assert left.exit_code == 3
    assert left.artifacts == {"plan": "/runs/a/artifacts/out/PLAN.md"}
    assert left.earlier == [{"summary": "first"}]
    assert left.verification == {"status": "passed", "produced": verification["produced"]}
    assert result_of(None, None, 0, "/runs/a", None) == StepResult(None, None, 0, {}, None)


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("steps.review.delivery == 'partial'", True),
        ("steps.review.verification.status == 'failed'", True),
        ("steps.review.exit_code == 3", True),
        ("steps.review.artifacts.report == '/runs/s/a/r.md'", True),
        ("steps.review.outcomes | map(attribute='summary') | list == ['first', 'last']", True),
        ("steps.review.try == 1", True),
        (f"steps.review.session_id == '{RUN}-0-1'", True),
        ("steps.review.delivery == 'passed'", False),
    ],
)
def test_a_condition_sees_all_that_an_earlier_step_left(condition: str, runs: bool) -> None:
    text = TEXT.replace("{{ outcome.verdict == 'APPROVE' }}", f"{{{{ {condition} }}}}")
    chain = read_chain(text, "pr.yaml", Callables(("review", "merge", "tell"))).value
    assert chain is not None
    effects = finished(outcome={"summary": "last"}, definition=chain.definition, result=LEFT)
    over, following = of(SetStep, effects)[:2]
    assert (over.standing.result, following.standing.status) == (LEFT, "running" if runs else "skipped")


def test_the_declared_fields_are_what_expressions_see() -> None:
    position = position_of(stands({0: StepStanding(0, "completed", None, "a/b", 1, {}, LEFT)}), GIVEN)
    (seen,) = advancing._seen(position, position.step(1))
    assert tuple(seen) == STEP_FIELDS
    assert set(advancing.about(position)) == set(CHAIN_FIELDS)


def test_a_step_that_uses_outcomes_that_are_too_large_is_not_started_and_says_so() -> None:
    text = TEXT.replace("outcome.verdict == 'APPROVE'", "steps.review.outcomes | length > 1")
    chain = read_chain(text, "pr.yaml", Callables(("review", "merge", "tell"))).value
    assert chain is not None
    cut = LEFT._replace(earlier=None)
    _, failed = of(SetStep, finished(outcome={}, definition=chain.definition, result=cut))
    assert (failed.standing.status, failed.standing.reason) == ("failed", "run.failed.not_started")
    assert "steps.review.outcomes are longer than 512 KiB together" in failed.reason_summary
    over, begun = of(SetStep, finished(outcome={"verdict": "APPROVE"}, result=cut))[:2]
    assert (over.standing.status, begun.standing.status) == ("completed", "running"), (
        "steps that don't use them run"
    )


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
        **NOT_YET,
        PlayOf("review"): Play(None, problem="there is no playbook 'review'"),
    }
    effects = decided(firing.open_run(FIRED, GIVEN), answers)
    assert [(each.standing.status, each.standing.reason) for each in of(SetStep, effects)] == [
        ("failed", "run.failed.not_started")
    ]
    assert [each.reason_code for each in of(SetChainRun, effects)] == ["chain.failed.step_failed"]


def test_a_step_whose_condition_takes_too_much_work_fails_and_is_not_skipped() -> None:
    files: list[JsonValue] = [f"a{number}" for number in range(9000)]
    allowed: list[JsonValue] = [f"b{number}" for number in range(9000)]
    condition = "{{ trigger.files | select('in', trigger.allowed) | list | length > 0 }}"
    chain: JsonValue = {
        "name": "pr",
        "trigger": {"event": "pr.opened"},
        "steps": [{"skill": "review", "condition": condition}, {"skill": "merge"}],
    }
    fired = replace(FIRED, fields={"files": files, "allowed": allowed}, definition=chain)
    effects = decided(firing.open_run(fired, GIVEN), NOT_YET)
    (step,) = of(SetStep, effects)
    assert (step.standing.step, step.standing.status, step.standing.reason) == (
        0,
        "failed",
        "run.failed.not_started",
    )
    assert step.reason_summary is not None
    assert "takes too much work: more than 100000 items" in step.reason_summary
    assert [each.reason_code for each in of(SetChainRun, effects)] == ["chain.failed.step_failed"]


def test_of_a_run_that_is_over_only_the_step_is_kept() -> None:
    (over,) = finished("cancelled", run_status="cancelled")
    assert isinstance(over, SetStep)
    assert over.standing.status == "cancelled"


def test_a_session_that_no_chain_started_changes_nothing() -> None:
    stranger = SessionFinished("native:runs/other", 1, 2.0, "completed", "c", None)
    assert decided(continuing.advance_after_step(stranger, GIVEN), {}) == ()
    forged = SessionFinished(f"native:elsewhere/{RUN}-0-1", 1, 2.0, "completed", "c", None)
    standing = stands({})
    assert decided(continuing.advance_after_step(forged, GIVEN), {ChainRunOf(RUN): standing}) == ()


def test_a_step_that_can_never_begin_fails_its_run() -> None:
    key = f"native:runs/{RUN}-0-1"
    steps = {0: StepStanding(0, "running", None, key, 1, None)}
    run = stands(steps)
    event = StartFailed(f"{RUN}/0/1", key, 9.0, "its run directory can't be made")
    step, said, ended, _ = decided(continuing.advance_after_step(event, GIVEN), {ChainRunOf(RUN): run})
    assert isinstance(step, SetStep)
    assert (step.standing.status, step.standing.reason, step.standing.attempt) == (
        "failed",
        "run.failed.not_started",
        1,
    )
    assert isinstance(ended, SetChainRun)
    assert (ended.status, ended.reason_code) == ("failed", "chain.failed.step_failed")
    assert isinstance(said, Explain)
    is_over = {ChainRunOf(RUN): run._replace(status="failed")}
    (only, _) = decided(continuing.advance_after_step(event, GIVEN), is_over)
    assert isinstance(only, SetStep)


def test_an_event_that_is_told_again_long_after_fires_no_second_run() -> None:
    known = stands({}, "completed")
    assert [
        type(each) for each in decided(firing.open_run(FIRED, GIVEN), {**NOT_YET, ChainRunOf(RUN): known})
    ] == [RecordFiring, Explain]


def changed(text: str) -> JsonValue:
    chain = read_chain(text, "pr.yaml", Callables(("review", "merge", "tell"))).value
    assert chain is not None
    return chain.definition


CLEANING: JsonValue = changed(
    TEXT
    + """\
on_failure:
  - {id: note, skill: tell, with: {said: "{{ steps.review.reason }}"}}
  - {id: close, skill: merge, condition: "{{ steps.note.status == 'completed' }}"}
"""
)


def test_after_a_failure_the_steps_of_on_failure_run_and_the_run_stays_failed() -> None:
    effects = finished("failed", definition=CLEANING)
    (start,), (run,) = of(StartRun, effects), of(SetChainRun, effects)
    assert start.name == f"{RUN}-3-1"
    assert start.command == ("tell", "run.failed.why")
    assert (run.status, run.reason_code, run.current_step) == ("running", "chain.failed.step_failed", 3)
    before = {0: StepStanding(0, "failed", "run.failed.why", "a", 1, None)}
    failing = "chain.failed.step_failed"
    effects = finished("failed", step=3, steps=before, definition=CLEANING, code=failing)
    assert [(each.standing.step, each.standing.status) for each in of(SetStep, effects)] == [
        (3, "failed"),
        (4, "skipped"),
    ]
    (run,) = of(SetChainRun, effects)
    assert (run.status, run.reason_code) == ("failed", failing)


def test_where_no_step_fails_those_of_on_failure_never_run() -> None:
    steps = {
        0: StepStanding(0, "completed", None, "a", 1, None),
        1: StepStanding(1, "skipped", None, None, 0, None),
    }
    effects = finished(step=2, steps=steps, definition=CLEANING)
    assert [each.status for each in of(SetChainRun, effects)] == ["completed"]
    assert of(StartRun, effects) == []


def test_a_step_that_may_fail_does_not_change_how_the_run_ends() -> None:
    text = TEXT.replace(
        "{id: review, skill: review,", "{id: review, skill: review, continue_on_failure: true,"
    )
    effects = finished("failed", definition=changed(text))
    assert [each.command for each in of(StartRun, effects)] == [("tell", "skipped")]
    assert [each.status for each in of(SetChainRun, effects)] == ["running"]


def test_a_step_has_its_own_timeout_and_never_more_than_the_run_has_left() -> None:
    text = TEXT.replace("skill: tell,", "skill: tell, timeout: 5m, grace: 3s,")
    effects = finished(definition=changed(text), deadline=1_000_000.0)
    (start,) = of(StartRun, effects)
    assert (start.timeout, start.grace) == (300.0, 3.0)
    effects = finished(definition=changed(text), deadline=GIVEN.at + 20.0)
    assert of(StartRun, effects)[0].timeout == 20.0
    fired = firing.open_run(replace(FIRED, definition=changed("timeout: 30s\n" + TEXT)), GIVEN)
    effects = decided(fired, NOT_YET)
    assert of(OpenChainRun, effects)[0].run.deadline == GIVEN.at + 30.0
    assert of(StartRun, effects)[0].timeout == 30.0


@pytest.mark.parametrize("status", ["completed", "timed_out"])
def test_a_run_whose_time_is_over_is_timed_out(status: Status) -> None:
    effects = finished(status, definition=CLEANING, deadline=GIVEN.at)
    assert [each.command[0] for each in of(StartRun, effects)] == ["tell"]
    (run,) = of(SetChainRun, effects)
    assert (run.status, run.reason_code) == ("running", "chain.timed_out.deadline")
    assert of(StartRun, effects)[0].timeout is None


def running(status: Status) -> Session:
    key = f"native:runs/{RUN}-0-1"
    return Session(key, "s", "native", "/runs/s", status, 1, "/runs/s/a", None, None, None, 1.0, "live")


CANCEL = ChainRunCancelRequested("request", 1.0, RUN, "the wrong branch", "ada")
BEGUN = {0: StepStanding(0, "running", None, f"native:runs/{RUN}-0-1", 1, None)}


def test_a_cancelled_run_is_over_at_once_and_its_step_is_told_to_end() -> None:
    key = f"native:runs/{RUN}-0-1"
    answers = {ChainRunOf(RUN): stands(BEGUN), SessionOf(key): running("running")}
    effects = decided(continuing.cancel_run(CANCEL, GIVEN), answers)
    emitted, told = of(Emit, effects)
    assert (emitted.event.session_key, emitted.event.attempt, emitted.event.said_by) == (key, 1, "ada")
    assert (told.event.type, told.event.status) == ("ChainRunFinished", "cancelled")
    assert [(each.status, each.reason_code) for each in of(SetChainRun, effects)] == [
        ("cancelled", "chain.cancelled.user")
    ]


def test_the_start_of_a_step_that_is_no_session_yet_is_withdrawn_and_it_is_told_to_end_if_it_begins() -> None:
    key = f"native:runs/{RUN}-0-1"
    answers = {
        ChainRunOf(RUN): stands(BEGUN),
        SessionOf(key): None,
        InvocationOf(key): Invocation("inv_1", "review", "pr", RUN),
        IsHeard("invocation.completed"): False,
    }
    effects = decided(continuing.cancel_run(CANCEL, GIVEN), answers)
    assert [each.status for each in of(EndInvocation, effects)] == ["cancelled"]
    assert [each.session_key for each in of(WithdrawStart, effects)] == [key]
    assert [(each.standing.status, each.standing.reason) for each in of(SetStep, effects)] == [
        ("cancelled", "run.cancelled.user")
    ]
    told, _ = of(Emit, effects)  # the job that opens its session may be ahead in the session's lane
    assert (told.event.type, told.event.session_key, told.event.attempt) == ("SessionCancelRequested", key, 1)
    late = AttemptStarted(key, 1, 2.0, None)
    (emitted,) = of(
        Emit,
        decided(continuing.end_withdrawn_step(late, GIVEN), {ChainRunOf(RUN): stands(BEGUN, "cancelled")}),
    )
    assert emitted.event.session_key == key
    for run in (stands(BEGUN), stands({}, "cancelled"), stands(BEGUN, "completed"), None):
        assert decided(continuing.end_withdrawn_step(late, GIVEN), {ChainRunOf(RUN): run}) == ()


def test_a_step_is_not_over_before_what_was_added_to_its_session_is_kept() -> None:
    key = f"native:runs/{RUN}-0-1"
    verdict = SessionFinished(key, 1, 4.0, "completed", "run.completed.ok", None)
    answers = {ChainRunOf(RUN): stands(BEGUN), LaneWaits(f"artifacts:{key}"): True}
    with pytest.raises(TryLater):
        decided(continuing.advance_after_step(verdict, GIVEN), answers)


@pytest.mark.parametrize("run", [None, stands({}, "completed")])
def test_a_run_that_is_over_is_not_cancelled(run: ChainRunStanding | None) -> None:
    effects = decided(continuing.cancel_run(CANCEL, GIVEN), {ChainRunOf(RUN): run})
    assert [each.verdict for each in of(Explain, effects)] == ["refused"]
    assert len(effects) == 1


@pytest.mark.parametrize(
    ("status", "since", "is_skipped"),
    [("paused", 1.0, True), ("disabled", 0.5, True), ("active", 0.5, False), ("paused", 1.5, False)],
)
def test_a_chain_that_was_paused_before_an_event_skips_it(
    status: ChainStatus, since: float, is_skipped: bool
) -> None:
    answers = {**NOT_YET, ChainFiresNow("pr"): ChainFires(status, since, "a freeze", "ada")}
    effects = decided(firing.open_run(FIRED, GIVEN), answers)
    assert bool(of(StartRun, effects)) != is_skipped
    assert ("skipped" in of(Explain, effects)[0].summary) == is_skipped


def test_a_chain_is_paused_as_a_person_asked() -> None:
    event = ChainStatusRequested("request", 1.0, "pr", "paused", "a freeze", "ada")
    kept, said = changed_status.set_status(event, GIVEN)
    assert kept == SetChainStatus("pr", 1.0, "paused", "a freeze", "ada")
    assert isinstance(said, Explain)


@pytest.mark.parametrize(
    ("without", "why"),
    [((), "approve without: --without d"), (("d", "other"), "other: no such file is among")],
)
def test_a_person_approves_what_an_approval_can_not_cover_in_words_or_not_at_all(
    without: tuple[str, ...], why: str
) -> None:
    shown: JsonValue = {
        "artifacts": [{"step": 0, "id": None, "path": "d", "sha256": None, "state": "denied"}]
    }
    waits = StepStanding(1, "waiting_approval", None, None, 1, None)
    answers = {
        ApprovalOf("ap_0"): ApprovalStanding("ap_0", RUN, 1, "asked", "0" * 64, None, shown, 0.0),
        ChainRunOf(RUN): stands({1: waits}, "waiting_approval"),
    }
    event = ApprovalRequested("request", 1.0, "ap_0", RUN, "approved", "", "ada", without=without)
    (refused,) = decided(answer_approval(event, GIVEN), answers)
    assert isinstance(refused, Explain)
    assert refused.verdict == "refused"
    assert why in refused.summary


def test_a_file_that_is_being_written_is_shown_only_after_some_tries() -> None:
    named = _Named(0, LeftPlace("/runs/a", "/runs/a/artifacts"), {})

    def left(tries: int, without: tuple[str, ...] = ()) -> list[JsonValue]:
        asking = _left([named], [], tries, without)
        assert next(asking) == FilesLeftIn((named.place,), ())
        with pytest.raises(StopIteration) as end:
            asking.send((LeftFiles((LeftFile("log", "changing"),)),))
        return [each["state"] for each in end.value.value]

    with pytest.raises(TryLater, match="log was written to"):
        left(0)
    assert left(0, ("log",)) == ["changing"], "it is left out"
    assert left(TRIES - 1) == ["changing"]
