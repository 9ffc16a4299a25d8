"""An order that this host took: begun by its own settings, or declined for good; and what its origin is told of its end."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from tests.handlers.chains.test_machine import of
from tests.handlers.examples import session

from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook
from runward.handlers.bundle.signatures import SecretKey, named
from runward.handlers.fleet import taking
from runward.handlers.fleet.signing import Wanted, signed
from runward.handlers.model.asking import Given
from runward.handlers.model.chains import IsHeard, LaneWaits, LeftBy, LeftBySession, StepResult
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.model.fleet import (
    MOST_OUTCOME,
    TOO_LATE,
    Accepted,
    AcceptedNow,
    BeginTaken,
    BegunBefore,
    DeclineTaken,
    EndTaken,
    OwnHost,
    RemoteStepCancelled,
    RemoteStepOrdered,
    Taken,
    TakenAs,
    TakenOf,
    lane_of_taken,
    run_of_order,
    taken_after,
)
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
from runward.handlers.model.sessions import AttemptStarted, Session, SessionFinished, SessionOf

GIVEN = Given("hash", 5.0)
ORDER = "cr_000000000000-0-1"
NAME = run_of_order("laptop", ORDER, 1)
KEY = f"native:runs/{NAME}"
BODY: dict[str, JsonValue] = {
    "format": 1,
    "kind": "skill",
    "name": "train",
    "with": {"data": "{{ secret }}"},
    "env": {},
    "cwd": None,
    "timeout": 600,
    "grace": None,
    "stale_after": None,
    "chain": "nightly",
    "run": "cr_000000000000",
    "step": "train",
    "attempt": 1,
    "secret": "5ec7e7",
}
TRAIN = Playbook("train", ("train", "--data={{ with.data }}"), timeout=60.0)
PLAY = Play(TRAIN, root_name="runs", root_path="/runs")
BEGUN = Taken("laptop", ORDER, 1, "begun", KEY)


def decided(deciding: Deciding, answers: Mapping[Any, object]) -> tuple[Effect, ...]:
    """What a handler returns that is given these answers; what isn't among them is not there."""
    usual = {
        AcceptedNow("laptop", "skill", "train"): Accepted(frozenset(), None),
        PlayOf("train"): PLAY,
    }
    answer: object = None
    while True:
        try:
            question = deciding.send(answer)
        except StopIteration as end:
            effects: tuple[Effect, ...] = end.value
            return effects
        answer = {**usual, **answers}.get(question, False if isinstance(question, LaneWaits) else None)


def ordered(answers: Mapping[Any, object] = {}, **body: JsonValue) -> tuple[Effect, ...]:  # it is read only
    event = RemoteStepOrdered("r", 1.0, "laptop", ORDER, 1, {**BODY, **body})
    return decided(taking.begin_taken(event, GIVEN), answers)


def test_an_accepted_order_is_started_by_this_hosts_own_playbook_and_recorded_with_its_start() -> None:
    effects = ordered()
    (begun,), (start,) = of(BeginTaken, effects), of(StartRun, effects)
    assert begun == BeginTaken("laptop", ORDER, 1, KEY, 5.0)
    assert (start.session, start.name, start.playbook, start.kind) == (KEY, NAME, "train", "step")
    assert lane_of_taken(start.session) == RemoteStepOrdered("r", 1.0, "laptop", ORDER, 1, BODY).lane
    assert start.timeout == 600.0
    assert start.key == f"fleet/laptop/{ORDER}/1/5ec7e7"
    assert "5ec7e7" not in str(start.metadata), "a command could read it"
    assert dict(start.metadata)["chain_run_id"] == "cr_000000000000"
    assert of(DeclineTaken, effects) == []


def test_the_entries_of_the_settings_that_let_an_order_in_are_recorded_with_it() -> None:
    entry = '[[fleet.accept]] from = ["laptop"], skills = ["train*"]'
    answers = {AcceptedNow("laptop", "skill", "train"): Accepted(frozenset(), None, (entry,))}
    effects = ordered(answers)
    (invocation,), (explained,) = of(OpenInvocation, effects), of(Explain, effects)
    assert isinstance(invocation.metadata, dict)
    assert isinstance(explained.known, dict)
    assert invocation.metadata["accepted_by"] == explained.known["accepted_by"] == [entry]


def test_an_order_is_as_deep_as_the_chain_run_that_ordered_it() -> None:
    assert [each.depth for each in of(BeginTaken, ordered(depth=7))] == [7]
    deep: list[JsonValue] = [-1, 1001, "7", None, 1.5]
    for depth in deep:
        assert of(BeginTaken, ordered(depth=depth)) == []


def test_a_value_is_never_read_as_an_expression_of_this_host() -> None:
    (start,) = of(StartRun, ordered())
    assert start.command == ("train", "--data={{ secret }}")


def test_an_order_counts_for_the_key_that_signed_it_and_for_this_host_alone() -> None:
    key = SecretKey("ed25519", bytes(range(32)))
    unsigned = AcceptedNow("laptop", "skill", "train")
    answers = {
        OwnHost(): "gpu-box",
        unsigned: None,
        AcceptedNow("laptop", "skill", "train", named(key)): Accepted(frozenset(), None),
    }
    body = signed("laptop", ORDER, Wanted("gpu-box", (), None, 1.0), BODY, key)
    (start,) = of(StartRun, ordered(answers, **body))
    assert start.command == ("train", "--data={{ secret }}")
    changes: tuple[dict[str, JsonValue], ...] = (
        {"with": {"data": "other"}},
        {"signed": None},
        {"signed": {**body, "host": "farm"}},
    )
    for changed in changes:
        effects = ordered(answers, **{**body, **changed})
        (declined,) = of(DeclineTaken, effects)
        assert declined.why.endswith("from laptop, as it is not signed by a key that is known here")
        assert of(StartRun, effects) == []
    other = SecretKey("ed25519", bytes(32))
    (declined,) = of(
        DeclineTaken,
        ordered(answers, **signed("laptop", ORDER, Wanted("gpu-box", (), None, 1.0), BODY, other)),
    )
    assert declined.why.endswith(f"from laptop, signed by {named(other)}")


def test_a_timeout_is_cut_to_the_longest_that_is_accepted() -> None:
    for accepted, wanted, timeout in ((30.0, 600, 30.0), (900.0, 600, 600.0), (30.0, None, 30.0)):
        answers = {AcceptedNow("laptop", "skill", "train"): Accepted(frozenset(), accepted)}
        (start,) = of(StartRun, ordered(answers, timeout=wanted))
        assert start.timeout == timeout


@pytest.mark.parametrize(
    ("answers", "body", "why"),
    [
        ({AcceptedNow("laptop", "skill", "train"): None}, {}, "no [[fleet.accept]] here has skill 'train'"),
        ({PlayOf("train"): Play(None, problem="there is no playbook 'train'")}, {}, "there is no playbook"),
        ({}, {"env": {"PATH": "/evil"}}, "it has env, which [[fleet.accept]] does not allow"),
        ({}, {"cwd": "/"}, "it has cwd, which [[fleet.accept]] does not allow"),
        (
            {},
            {"format": 2, "needs": "1.4"},
            "it needs Runward ≥ 1.4: upgrade Runward here",
        ),
        ({}, {"format": 2}, "it has the format 2, and this Runward knows 1: upgrade Runward here"),
        ({}, {"format": 2, "needs": "\x1b[31m"}, "it has the format 2"),
        ({BegunBefore("laptop", ORDER): True}, {}, "this host has begun it before"),
        ({}, {"with": None}, "can't be read"),
        ({}, {"kind": "shell"}, "can't be read"),
        ({}, {"timeout": -1}, "can't be read"),
        ({}, {"timeout": True}, "can't be read"),
        ({}, {"timeout": 10**400}, "can't be read"),
        ({}, {"grace": 1e300}, "can't be read"),
        ({}, {"attempt": 10**400}, "can't be read"),
        ({}, {"secret": None}, "can't be read"),
        ({}, {"secret": "../x"}, "can't be read"),
        ({}, {"env": {"A": 1}}, "can't be read"),
        ({}, {"with": {}}, "data"),
    ],
)
def test_what_this_host_does_not_begin_is_declined_and_nothing_is_started(
    answers: Mapping[Any, object], body: Mapping[str, JsonValue], why: str
) -> None:
    effects = ordered(answers, **body)
    (declined,) = of(DeclineTaken, effects)
    assert why in declined.why
    assert (of(StartRun, effects), of(BeginTaken, effects)) == ([], [])


def test_variables_of_runward_are_never_set_even_if_variables_are_allowed() -> None:
    answers = {AcceptedNow("laptop", "skill", "train"): Accepted(frozenset({"env", "cwd"}), None)}
    (start,) = of(StartRun, ordered(answers, env={"MODE": "x"}, cwd="/work"))
    assert (start.environment, start.cwd) == ((("MODE", "x"),), "/work")
    assert of(DeclineTaken, ordered(answers, env={"RUNWARD_STATE_DIR": "x"}))
    assert of(DeclineTaken, ordered(answers, cwd="work"))


def test_an_order_that_was_cancelled_before_it_began_never_begins() -> None:
    event = RemoteStepOrdered("r", 1.0, "laptop", ORDER, 1, BODY, cancelled=True)
    effects = decided(taking.begin_taken(event, GIVEN), {})
    assert [each.why for each in of(DeclineTaken, effects)] == ["its origin cancelled it before it began"]
    assert of(StartRun, effects) == []


@pytest.mark.parametrize(
    ("left", "read_at", "is_begun"),
    [(None, 5.0, True), (0.5, 5.0, True), (0.0, 5.0, False), (-1.0, 5.0, False), (60.0, -55.0, False)],
    ids=["no limit", "in time", "just too late", "too late", "too late for the inbox"],
)
def test_an_order_whose_time_to_begin_has_passed_never_begins(
    left: float | None, read_at: float, is_begun: bool
) -> None:
    event = RemoteStepOrdered("r", read_at, "laptop", ORDER, 1, BODY, begin_within=left)
    effects = decided(taking.begin_taken(event, GIVEN), {})
    assert [each.why for each in of(DeclineTaken, effects)] == ([] if is_begun else [TOO_LATE])
    assert len(of(StartRun, effects)) == len(of(BeginTaken, effects)) == is_begun


def test_a_take_is_decided_once_whatever_became_of_it() -> None:
    for state in ("begun", "declined", "ended"):
        effects = ordered({TakenOf("laptop", ORDER, 1): BEGUN._replace(state=state)})
        assert of(StartRun, effects) == of(DeclineTaken, effects) == of(BeginTaken, effects) == []


def finished() -> SessionFinished:
    return SessionFinished(KEY, 1, 4.0, "completed", "run.completed.ok", None)


PRODUCED: JsonValue = {"produced": [{"id": "report", "path": "report.md", "size": 4}]}


def test_the_end_of_its_run_is_the_end_of_the_order() -> None:
    left = LeftBySession({"kind": "ci"}, StepResult("passed", PRODUCED, 0, {"report": "/x"}), None)
    answers = {TakenAs(KEY): BEGUN, LeftBy(KEY, 1): left}
    (end,) = of(EndTaken, decided(taking.end_taken(finished(), GIVEN), answers))
    assert (end.origin, end.id, end.take) == ("laptop", ORDER, 1)
    assert isinstance(end.result, dict)
    assert (end.result["status"], end.result["began"], end.result["outcome"], end.result["artifacts"]) == (
        "completed",
        True,
        {"kind": "ci"},
        [{"id": "report", "path": "report.md", "size": 4}],
    )


@pytest.mark.parametrize(
    "long",
    ["x" * MOST_OUTCOME, "ж" * (MOST_OUTCOME // 4), [1e308] * 1000],
    ids=["text", "text that its origin counts as longer", "numbers with 309 digits"],
)
def test_an_outcome_that_is_too_long_stays_here_and_that_is_said(long: JsonValue) -> None:
    left = LeftBySession({"long": long}, StepResult(), None)
    answers = {TakenAs(KEY): BEGUN, LeftBy(KEY, 1): left}
    (end,) = of(EndTaken, decided(taking.end_taken(finished(), GIVEN), answers))
    assert isinstance(end.result, dict)
    assert (end.result["outcome"], end.result["outcome_is_too_long"]) == (None, True)


def test_a_start_that_fails_ends_the_order_and_never_gives_it_back() -> None:
    effects = decided(
        taking.end_taken(StartFailed("start", KEY, 4.0, "it vanished"), GIVEN), {TakenAs(KEY): BEGUN}
    )
    (end,) = of(EndTaken, effects)
    assert isinstance(end.result, dict)
    assert (end.result["status"], end.result["reason"]) == ("failed", "run.failed.not_started")
    assert end.result["began"] is None, "what vanished may have begun"
    assert of(DeclineTaken, effects) == []


def test_the_end_of_another_session_or_of_an_ended_order_says_nothing() -> None:
    for taken in (None, BEGUN._replace(state="ended")):
        assert decided(taking.end_taken(finished(), GIVEN), {TakenAs(KEY): taken}) == ()


def test_a_cancelled_order_that_has_not_begun_is_withdrawn_and_over() -> None:
    event = RemoteStepCancelled("c", 1.0, "laptop", ORDER, 1)
    effects = decided(
        taking.cancel_taken(event, GIVEN), {TakenOf("laptop", ORDER, 1): BEGUN, SessionOf(KEY): None}
    )
    (end,), (withdrawn,), (emitted,) = of(EndTaken, effects), of(WithdrawStart, effects), of(Emit, effects)
    assert isinstance(end.result, dict)
    assert end.result["status"] == "cancelled"
    assert withdrawn.session_key == emitted.event.session_key == KEY


def test_a_run_that_begins_after_its_order_was_withdrawn_is_ended() -> None:
    started = AttemptStarted(KEY, 1, 2.0, None)
    ended = BEGUN._replace(state="ended")
    (emitted,) = of(Emit, decided(taking.end_withdrawn(started, GIVEN), {TakenAs(KEY): ended}))
    assert (emitted.event.session_key, emitted.event.attempt) == (KEY, 1)
    assert decided(taking.end_withdrawn(started, GIVEN), {TakenAs(KEY): BEGUN}) == ()


def test_what_is_over_is_not_cancelled() -> None:
    event = RemoteStepCancelled("c", 1.0, "laptop", ORDER, 1)
    for taken in (BEGUN._replace(state="ended"), BEGUN._replace(state="declined", session_key=None)):
        assert decided(taking.cancel_taken(event, GIVEN), {TakenOf("laptop", ORDER, 1): taken}) == ()


def test_an_order_whose_cancellation_comes_first_is_declined_and_never_begins() -> None:
    event = RemoteStepCancelled("c", 1.0, "laptop", ORDER, 1)
    effects = decided(taking.cancel_taken(event, GIVEN), {TakenOf("laptop", ORDER, 1): None})
    assert [each.take for each in of(DeclineTaken, effects)] == [1]


def test_the_invocation_of_a_withdrawn_order_is_over() -> None:
    event = RemoteStepCancelled("c", 1.0, "laptop", ORDER, 1)
    answers = {
        TakenOf("laptop", ORDER, 1): BEGUN,
        InvocationOf(KEY): Invocation("inv_1", "train"),
        IsHeard("invocation.completed"): (),
    }
    (end,) = of(EndInvocation, decided(taking.cancel_taken(event, GIVEN), answers))
    assert (end.id, end.status) == ("inv_1", "cancelled")


class Target:
    """The rows of a store, as the effects of the handlers change them. A second decision on a take is an error, as there."""

    def __init__(self) -> None:
        self.taken: Taken | None = None
        self.starts: list[str] = []
        self.session: Session | None = None
        self.is_withdrawn = self.is_told_to_end = False

    def does(self, deciding: Deciding) -> None:
        known = {
            TakenOf("laptop", ORDER, 1): self.taken,
            TakenAs(KEY): self.taken,
            SessionOf(KEY): self.session,
        }
        for effect in decided(deciding, {**known, LeftBy(KEY, 1): LeftBySession()}):
            match effect:
                case BeginTaken() | DeclineTaken():
                    assert self.taken is None, "a take was decided twice"
                    self.taken = taken_after(self.taken, effect)
                case EndTaken():
                    assert self.taken is not None
                    assert self.taken.state == "begun", "an order ended twice, or was declined before"
                    self.taken = taken_after(self.taken, effect)
                case StartRun():
                    self.starts.append(effect.key)
                case WithdrawStart():
                    self.is_withdrawn = True
                case Emit():
                    self.is_told_to_end = self.is_told_to_end or self.session is not None

    def order(self, *, cancelled: bool = False) -> None:
        self.does(taking.begin_taken(RemoteStepOrdered("r", 1.0, "laptop", ORDER, 1, BODY, cancelled), GIVEN))

    def cancel(self) -> None:
        self.does(taking.cancel_taken(RemoteStepCancelled("c", 1.0, "laptop", ORDER, 1), GIVEN))

    def begin(self) -> None:
        if self.starts and self.session is None:
            self.session = session(key=KEY)
            self.does(taking.end_withdrawn(AttemptStarted(KEY, 1, 2.0, None), GIVEN))

    def finish(self) -> None:
        if self.session is not None:
            self.session = self.session._replace(status="completed")
            self.does(taking.end_taken(finished(), GIVEN))

    def fail(self) -> None:
        if self.starts and self.session is None:
            self.does(taking.end_taken(StartFailed("start", KEY, 4.0, "it vanished"), GIVEN))


@drawn(st.lists(st.sampled_from(["order", "late order", "cancel", "begin", "finish", "fail"]), max_size=12))
def test_whatever_is_brought_again_late_or_in_another_order_begins_a_step_at_most_once(
    what: list[str],
) -> None:
    target, is_cancelled = Target(), False
    for each in what:
        is_running = target.session is not None and target.session.status == "running"
        if each == "late order":
            target.order(cancelled=True)
        else:
            getattr(target, each)()
        if each == "cancel":
            is_cancelled = True
            assert not is_running or target.is_told_to_end
        assert len(target.starts) <= 1
        if target.starts:
            assert target.taken is not None
            assert target.taken.state != "declined", "it was given back, and may have begun"
        elif is_cancelled:
            assert target.taken is not None, "it may still begin, though nobody wants it"
    # Whatever was lost on the way, what is brought again ends it.
    target.order()
    target.begin()
    target.finish()
    assert target.taken is not None
    assert target.taken.state in ("declined", "ended")
    if is_cancelled and target.is_withdrawn and target.session is not None:
        assert target.is_told_to_end
