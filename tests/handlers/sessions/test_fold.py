"""What a job sees of the jobs before it is what the store will say after them."""

from typing import get_args

from tests.handlers.examples import HASH, KEY, NOW, declaration, ended, session, started
from tests.handlers.played import Answer, AnyQuestion, played

from runward.config.bundle import BundleRules
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.chains import IsHeard
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import OutcomesIn
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    FoldContract,
    LaunchOf,
    LinkedSessions,
    LinkedSessionsOf,
    RefuseFold,
    Session,
    SessionOf,
    Status,
)
from runward.handlers.sessions import ended as ending
from runward.handlers.sessions import opened
from runward.handlers.sessions.fold import fold


def decide(event: AttemptStarted | AttemptEnded, known: Session | None) -> Effects:
    facts: dict[AnyQuestion, Answer] = {
        SessionOf(KEY): known,
        LaunchOf(KEY): None,
        LinkedSessionsOf(KEY): LinkedSessions(),
        IsHeard("session.finished"): (),
        **{RecipientsOf(f"session.{status}"): () for status in get_args(Status)},
    }
    if known is not None:
        facts[OutcomesIn(known.path, known.artifacts_path)] = ()
        facts[BundleRulesOf(known.layout, known.path)] = BundleRules()
    decision = (
        played(opened.open_attempt)(event, HASH, facts, NOW)
        if isinstance(event, AttemptStarted)
        else played(ending.end_attempt)(event, HASH, facts, NOW)
    )
    assert isinstance(decision, tuple)
    return decision


def test_a_whole_life_is_folded_job_by_job() -> None:
    known: Session | None = None
    seen: list[tuple[str, int]] = []
    for event in (started(), ended(), started(attempt=2), ended("failed", "run.failed.signal", attempt=2)):
        known = fold(known, decide(event, known))
        assert known is not None
        seen.append((known.status, known.attempt))
    assert seen == [("running", 1), ("completed", 1), ("running", 2), ("failed", 2)]


def test_an_opened_session_is_as_its_row_will_be() -> None:
    effects = decide(started(has_snapshot=True, contract={"expected": []}, session_id="s-1"), None)
    expected = session(
        contract_json='{"expected":[]}',
        session_id="s-1",
        path=declaration().path,
        contract_basis="first_look",
        reason_code="run.started.ok",
    )
    assert fold(None, effects) == expected


def test_explanations_change_nothing() -> None:
    assert fold(None, (Explain(KEY, "refused", "no"),)) is None
    assert fold(session(), (Explain(KEY, "refused", "no"),)) == session()


def test_a_fold_and_its_refusal_are_seen_by_the_next_job() -> None:
    folded = fold(session(), (FoldContract(KEY, '{"expected":[]}', "late"),))
    assert folded == session(contract_json='{"expected":[]}', folded=True, contract_basis="late")
    refused = fold(folded, (RefuseFold(KEY, "why"),))
    assert refused == session(
        contract_json='{"expected":[]}', folded=True, contract_problem="why", contract_basis="late"
    )
    assert fold(refused, (RefuseFold(KEY, "another"),)) == refused
