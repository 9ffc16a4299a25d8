"""A step of another host that a person is asked about: what is shown, what the approval binds, and who asks again."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.handlers.chains.test_machine import decided, of
from tests.handlers.fleet import test_taking as target
from tests.handlers.fleet.test_ordering import FIRED, GIVEN, NOT_YET, RUN, stands

from runward.config.chain import read_chain
from runward.config.json_value import JsonValue
from runward.config.step import Callables
from runward.handlers import approvals
from runward.handlers.chains import continuing, firing
from runward.handlers.fleet import ordering
from runward.handlers.fleet.offering import hash_of
from runward.handlers.model.approvals import (
    ApprovalDecided,
    ApprovalWanted,
    ApprovedHosts,
    AskApproval,
    FilesLeftIn,
)
from runward.handlers.model.asking import Given
from runward.handlers.model.chains import ChainRunOf, ChainRunStanding, SetStep, StepStanding
from runward.handlers.model.effects import Effect, Emit
from runward.handlers.model.fleet import (
    NOT_APPROVED,
    DeclineTaken,
    Offer,
    OffersOf,
    OwnHost,
    PlaceOrder,
    RemoteStepOver,
    Try,
)
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.notices import RecipientsOf

TEXT = """\
name: nightly
trigger: {event: data.ready}
steps:
  - {id: train, skill: train, host: HOST, with: {data: "{{ trigger.data }}"}, requires_approval: true}
"""
OFFERS = (Offer("gpu-box", ("gpu", "big"), 1.0, "aaa"), Offer("other", ("gpu",), None, "bbb"))


def waiting(host: str = "gpu-box", attempt: int = 1) -> ChainRunStanding:
    chain = read_chain(TEXT.replace("HOST", host), "nightly.yaml", Callables()).value
    assert chain is not None
    step = StepStanding(0, "waiting_approval", None, attempt=attempt)
    return stands(step)._replace(definition=chain.definition, status="waiting_approval")


def asked(host: str, offers: tuple[Offer, ...] = OFFERS) -> dict[str, JsonValue]:
    """What a person is shown."""
    known: dict[Any, object] = {
        ChainRunOf(RUN): waiting(host),
        OwnHost(): "laptop",
        OffersOf("skill", "train"): offers,
        FilesLeftIn((), ()): (),
        RecipientsOf("approval.asked"): (),
    }
    effects = decided(approvals.ask_a_person(ApprovalWanted(RUN, 0, "n", 1.0), Given("hash", 5.0)), known)
    (question,) = of(AskApproval, effects)
    shown: dict[str, JsonValue] = question.asked.shown
    return shown


@pytest.mark.parametrize(
    ("host", "hosts"),
    [
        ("gpu-box", {"gpu-box": "aaa"}),
        ("{label: gpu}", {"gpu-box": "aaa", "other": "bbb"}),
        ("{label: [gpu, big]}", {"gpu-box": "aaa"}),
        ("unknown", {}),
    ],
)
def test_a_person_is_shown_the_target_the_values_and_the_hash_of_what_each_host_would_start(
    host: str, hosts: JsonValue
) -> None:
    shown = asked(host)
    assert shown["hosts"] == hosts
    argv = shown["argv"]
    assert isinstance(argv, list)
    assert argv[2:] == ["train", 'data="x"']


def test_an_approval_is_void_once_the_playbook_or_the_target_is_another_one() -> None:
    def hash_with(host: str, offers: tuple[Offer, ...]) -> object:
        return asked(host, offers)

    changed = (OFFERS[0]._replace(hash="ccc"), OFFERS[1])
    # When it was heard of last says nothing about what it would start.
    seen = (OFFERS[0]._replace(last_seen=9.0), OFFERS[1])
    assert hash_with("gpu-box", OFFERS) == hash_with("gpu-box", seen)
    assert hash_with("gpu-box", OFFERS) != hash_with("gpu-box", changed)
    assert hash_with("gpu-box", OFFERS) != hash_with("other", OFFERS)


def decide(decision: Any, attempt: int, own: str | None = "laptop") -> tuple[Effect, ...]:
    event = ApprovalDecided("ap", RUN, 0, 4.0, decision, "", "ann")
    known: dict[Any, object] = {
        ChainRunOf(RUN): waiting(attempt=attempt),
        OwnHost(): own,
        ApprovedHosts(RUN, 0): {"gpu-box": "aaa"},
    }
    return decided(continuing.advance_after_decision(event, GIVEN), known)


@pytest.mark.parametrize("attempt", [1, 2])
def test_the_order_carries_what_was_approved(attempt: int) -> None:
    (order,) = of(PlaceOrder, decide("approved", attempt))
    assert order.of == Try(RUN, 0, attempt)
    assert order.body["approved"] == {"gpu-box": "aaa"}


def test_an_order_that_nobody_was_asked_about_carries_no_approval() -> None:
    (order,) = of(PlaceOrder, decided(firing.open_run(replace(FIRED), GIVEN), NOT_YET))
    assert "approved" not in order.body


@pytest.mark.parametrize(
    ("approved", "begins"),
    [
        ({"gpu-box": hash_of(target.PLAY)}, True),
        ({"gpu-box": "another"}, False),
        ({"other": hash_of(target.PLAY)}, False),
        ({}, False),
        ({"gpu-box": None}, False),
    ],
)
def test_a_host_begins_only_what_was_approved_for_it(approved: JsonValue, begins: bool) -> None:
    effects = target.ordered({OwnHost(): "gpu-box"}, approved=approved)
    assert [bool(of(StartRun, effects)), bool(of(DeclineTaken, effects))] == [begins, not begins]
    assert all(each.why.startswith(NOT_APPROVED) for each in of(DeclineTaken, effects))


def test_an_approval_that_is_none_is_declined() -> None:
    (declined,) = of(DeclineTaken, target.ordered({OwnHost(): "gpu-box"}, approved=[1]))
    assert declined.why == "its body can't be read"


@pytest.mark.parametrize("reason", ["step.waiting.host", "step.running.remote"])
def test_a_person_is_asked_again_if_the_playbook_there_has_changed(reason: str) -> None:
    status: Any = "waiting" if reason == "step.waiting.host" else "running"
    run = waiting()._replace(status="running", steps={0: StepStanding(0, status, reason)})
    event = RemoteStepOver(
        "r", 4.0, f"{RUN}-0-1", "declined", None, None, {"gpu-box": f"{NOT_APPROVED}: skill 'train'"}
    )
    effects = decided(ordering.step_over(event, GIVEN), {ChainRunOf(RUN): run})
    steps = [(each.standing.attempt, each.standing.status) for each in of(SetStep, effects)]
    assert steps == [(1, "failed"), (2, "waiting_approval")]
    assert [type(each.event) for each in of(Emit, effects)] == [ApprovalWanted]


def test_any_other_reason_fails_the_step() -> None:
    run = waiting()._replace(status="running", steps={0: StepStanding(0, "waiting", "step.waiting.host")})
    event = RemoteStepOver("r", 4.0, f"{RUN}-0-1", "declined", None, None, {"gpu-box": "no playbook"})
    effects = decided(ordering.step_over(event, GIVEN), {ChainRunOf(RUN): run})
    assert [each.standing.status for each in of(SetStep, effects)] == ["failed"]
    assert [each.event for each in of(Emit, effects) if isinstance(each.event, ApprovalWanted)] == []


def test_what_changes_while_a_later_try_is_asked_about_is_asked_again_for_that_try() -> None:
    effects = decide("changed", 2)
    assert [(each.standing.attempt, each.standing.status) for each in of(SetStep, effects)] == [
        (2, "waiting_approval")
    ]
    # A step that can't be ordered any more is not asked about for ever.
    effects = decide("changed", 2, own=None)
    assert [(each.standing.attempt, each.standing.status) for each in of(SetStep, effects)] == [(2, "failed")]


def test_what_an_earlier_step_of_another_host_came_to_is_shown() -> None:
    chain = read_chain(
        TEXT.replace("HOST", "gpu-box").replace(", requires_approval: true", "")
        + "  - {id: again, skill: train, host: gpu-box, requires_approval: true}\n",
        "nightly.yaml",
        Callables(),
    ).value
    assert chain is not None
    run = waiting()._replace(
        definition=chain.definition,
        steps={
            0: StepStanding(0, "completed", None, outcome={"score": 3}),
            1: StepStanding(1, "waiting_approval", None),
        },
    )
    known: dict[Any, object] = {
        ChainRunOf(RUN): run,
        OwnHost(): "laptop",
        OffersOf("skill", "train"): OFFERS,
        RecipientsOf("approval.asked"): (),
    }
    effects = decided(approvals.ask_a_person(ApprovalWanted(RUN, 1, "n", 1.0), Given("hash", 5.0)), known)
    (question,) = of(AskApproval, effects)
    assert question.asked.shown["outcomes"] == [{"step": 0, "outcome": {"score": 3}, "files": None}]
