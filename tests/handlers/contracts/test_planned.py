"""What a plan does to its session's contract, by what is known of both."""

import json

import pytest
from tests.handlers.examples import HASH, KEY, NOTES, NOW, PATH, REVIEW, planned, session
from tests.handlers.played import Answer, AnyQuestion, Need, played

from runward.config.contract import Contract, ExpectedArtifact
from runward.handlers.model.asking import TryLater
from runward.handlers.model.contracts import (
    Declarations,
    DeclaredContract,
    EarlyLegs,
    LegsBefore,
)
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.files import Unreadable
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.sessions import FoldContract, RefuseFold, Session, SessionOf
from runward.handlers.sessions import opened as handler

REPORT = Declarations(None, (ExpectedArtifact("report", "report.md", True, "all of it"),))
BEFORE = LegsBefore(f"{PATH}/artifacts", PATH, ("one", "legs/two"), 5, 7)
NONE_EARLY = EarlyLegs(())
decide = played(handler.fold_plan)


def decided(
    known: Session | None,
    event: FlowPlanned | None = None,
    early: Answer = NONE_EARLY,
    declared: Declarations = REPORT,
) -> Effects | Need | TryLater:
    event = event or planned()
    facts: dict[AnyQuestion, Answer] = {SessionOf(KEY): known}
    while isinstance(decision := decide(event, HASH, facts, NOW), Need):
        facts[decision.question] = early if isinstance(decision.question, LegsBefore) else declared
    return decision


def refusal(decision: Effects | Need | TryLater) -> str:
    """Why the plan was refused, which the journal tells, too; nothing else may have been ordered."""
    assert isinstance(decision, tuple)
    kept, explained, *told = decision
    assert isinstance(kept, RefuseFold)
    for each in told:
        assert isinstance(each, AppendLines)
        assert json.loads(each.content)["problem"] == kept.problem
    assert isinstance(explained, Explain)
    assert explained.verdict == "refused"
    why = kept.problem.removeprefix("flow.json: ")
    assert explained.summary == f"the plan's legs are not folded into the contract: {why}"
    return why


def test_the_session_is_asked_for_first_then_the_legs_and_each_agent_once() -> None:
    assert decide(planned(), HASH, {}, NOW) == Need(SessionOf(KEY))
    event = planned(agents=("critic", "critic"))
    known: dict[AnyQuestion, Answer] = {SessionOf(KEY): session()}
    assert decide(event, HASH, known, NOW) == Need(BEFORE)
    known[BEFORE] = NONE_EARLY
    assert decide(event, HASH, known, NOW) == Need(DeclaredContract(None, "critic"))
    known[DeclaredContract(None, "critic")] = REPORT
    assert isinstance(decide(event, HASH, known, NOW), tuple)


def test_artifacts_outside_the_run_are_looked_at_where_they_are() -> None:
    need = decide(planned(), HASH, {SessionOf(KEY): session(artifacts_path="/out")}, NOW)
    assert isinstance(need, Need)
    asked = need.question
    assert isinstance(asked, LegsBefore)
    assert (asked.root, asked.within) == ("/out", "")


def test_a_fold_is_ordered_with_its_line_and_its_explanation() -> None:
    decision = decided(session(Contract((REVIEW, NOTES))))
    assert isinstance(decision, tuple)
    fold, explained, line = decision
    assert isinstance(fold, FoldContract)
    assert fold.contract_json is not None
    ids = [each["id"] for each in json.loads(fold.contract_json)["expected"]]
    assert ids == ["review", "notes", "one__report", "two__report"]
    assert explained == Explain(
        KEY,
        "decided",
        "2 artifacts of 2 legs folded into the contract (first_look)",
        {"legs": ["one", "two"], "folded": ["one__report", "two__report"]},
    )
    assert isinstance(line, AppendLines)
    assert (line.directory, line.name, line.live) == (PATH, "events.jsonl", True)
    assert json.loads(line.content)["event"] == "contract_folded"


@pytest.mark.parametrize(("seen_over", "basis"), [(False, "first_look"), (True, "late")])
def test_what_was_declared_is_of_the_look_that_found_the_plan(seen_over: bool, basis: str) -> None:
    decision = decided(session(), planned(seen_over=seen_over))
    assert isinstance(decision, tuple)
    fold = decision[0]
    assert isinstance(fold, FoldContract)
    assert fold.contract_basis == basis


def test_no_contract_has_no_basis() -> None:
    decision = decided(session(), declared=Declarations(None, None))
    assert isinstance(decision, tuple)
    assert decision[0] == FoldContract(KEY, None, None)


@pytest.mark.parametrize(
    ("known", "event", "why"),
    [
        (session(status="failed"), planned(), "it came after the session was over (failed)"),
        (session(attempt=2), planned(), "an earlier attempt was held to the contract already"),
        (session(), planned(attempt=2), "an earlier attempt was held to the contract already"),
        (
            session(folded=True),
            planned(),
            "it is not the plan whose legs are in the contract, and only one plan counts",
        ),
        (
            session(folded=True, status="completed"),
            planned(),
            "it is not the plan whose legs are in the contract, and only one plan counts",
        ),
        (session(origin="history"), planned(), "what ended before its root was first seen has no contract"),
        (
            session(contract_problem="review: it is wrong"),
            planned(),
            "there is no contract that it could be folded into: review: it is wrong",
        ),
    ],
)
def test_a_session_that_takes_no_plan_isnt_looked_at_further(
    known: Session, event: FlowPlanned, why: str
) -> None:
    assert refusal(decide(event, HASH, {SessionOf(KEY): known}, NOW)) == why


def test_a_plan_that_was_refused_keeps_no_other_from_being_folded() -> None:
    known = session(Contract((REVIEW,)), contract_problem="flow.json: leg x: there is no agent 'nobody'")
    decision = decided(known)
    assert isinstance(decision, tuple)
    assert isinstance(decision[0], FoldContract)


def test_a_plan_of_a_session_that_never_started_is_refused() -> None:
    decision = decided(None)
    assert decision == (Explain(KEY, "refused", "a flow was planned for a session that never started"),)


def test_a_leg_that_worked_before_is_named() -> None:
    early = EarlyLegs((("one", "one/report.md"),))
    assert refusal(decided(session(), early=early)) == (
        "it came after a leg worked: in 'one' lies 'one/report.md', which is older"
    )
    assert refusal(decided(session(), planned(filled=("legs/two/x",)))) == (
        "it came after a leg worked: there was something in 'legs/two/x' before it"
    )


def test_an_agent_that_is_missing_is_named_with_its_leg() -> None:
    wrong = Declarations(None, None, "there is no agent 'critic'")
    assert refusal(decided(session(), declared=wrong)) == "leg one: there is no agent 'critic'"


def test_legs_that_cant_be_looked_at_are_looked_at_later() -> None:
    decision = decided(session(), early=Unreadable("Input/output error"))
    assert isinstance(decision, TryLater)
    assert "Input/output error" in decision.why
