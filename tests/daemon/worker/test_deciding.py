"""Deciding a batch: in order, through a view, each lane for itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.worker.in_process import StillClock, declares_nothing
from tests.handlers.examples import HASH, declaration

from runward.daemon.rundir.files import RealFiles
from runward.daemon.store.rows import Job, Outcome
from runward.daemon.worker.deciding import LONGEST_WAIT, Decider, waves
from runward.handlers import route
from runward.handlers.effects import EndAttempt, Explain, OpenAttempt, OpenSession, TryLater
from runward.handlers.events import MAXIMUM_DEPTH, AttemptEnded, AttemptStarted, Event
from runward.handlers.facts import MAXIMUM_ROUNDS, Declarations, Facts, Need, SessionOf

Decide = Callable[[str, Event, str, Facts, float], route.Decision]


@pytest.fixture
def decider(tmp_path: Path) -> Decider:
    return Decider(RealFiles(tmp_path), StillClock(), declares_nothing)


def started(lane: str, attempt: int = 1, **said: object) -> AttemptStarted:
    return AttemptStarted(lane, attempt, 1.0, declaration(**said) if attempt == 1 else None)


def ended(lane: str, attempt: int = 1) -> AttemptEnded:
    return AttemptEnded(lane, attempt, 2.0, "declared", "completed", "run.completed.ok", "exited with 0")


def jobs(*events: Event, depth: int = 0, tries: int = 0) -> list[Job]:
    return [
        Job(number, number, event, HASH, depth, route.HANDLERS[event.type][0], event.lane, tries)
        for number, event in enumerate(events, 1)
    ]


def with_handler(monkeypatch: pytest.MonkeyPatch, decide: Decide) -> None:
    monkeypatch.setattr(route, "decide", decide)


def test_a_job_sees_what_the_jobs_before_it_in_its_lane_did(decider: Decider) -> None:
    outcomes = decider.decide(jobs(started("a"), ended("a"), started("a", 2), ended("a", 2)), {}, {})
    kinds = [type(outcome.effects[0]) for outcome in outcomes]
    assert kinds == [OpenSession, EndAttempt, OpenAttempt, EndAttempt]
    assert {outcome.state for outcome in outcomes} == {"done"}


def test_lanes_do_not_see_one_another(decider: Decider) -> None:
    outcomes = decider.decide(jobs(started("a"), ended("b")), {}, {})
    assert [type(outcome.effects[0]) for outcome in outcomes] == [OpenSession, Explain]


def test_a_handler_that_fails_stops_its_own_lane_and_nobody_elses(decider: Decider) -> None:
    def fails(playbook: str | None, agent: str | None) -> Declarations:
        raise ZeroDivisionError("a bug of ours")

    decider = Decider(RealFiles(Path()), StillClock(), fails)
    outcomes = decider.decide(jobs(started("a", playbook="p"), ended("a"), started("b"), ended("b")), {}, {})
    assert [outcome.state for outcome in outcomes] == ["held", "waiting", "done", "done"]
    assert outcomes[0].error is not None
    assert "ZeroDivisionError: a bug of ours" in outcomes[0].error
    assert outcomes[1].error is None


@pytest.mark.parametrize(
    ("tries", "wait"), [(0, 0.5), (1, 1.0), (4, 8.0), (7, LONGEST_WAIT), (10_000, LONGEST_WAIT)]
)
def test_what_the_world_refuses_is_tried_again_with_backoff_for_ever(
    decider: Decider, tries: int, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_handler(monkeypatch, lambda *asked: TryLater("the disk is busy"))
    (first, second) = decider.decide(jobs(started("a"), ended("a"), tries=tries), {}, {})
    assert (first.state, first.error, first.run_after) == (
        "waiting",
        "the disk is busy",
        StillClock().now() + wait,
    )
    assert (second.state, second.error) == ("waiting", None)


def test_a_handler_that_asks_for_ever_is_a_bug_and_held(
    decider: Decider, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def ask(handler: str, event: Event, event_hash: str, facts: Facts, now: float) -> route.Decision:
        asked.append(1)
        return Need((SessionOf(event.lane),))

    with_handler(monkeypatch, ask)
    (outcome,) = decider.decide(jobs(started("a")), {}, {})
    assert outcome.state == "held"
    assert "TooManyRounds" in str(outcome.error)
    assert len(asked) == MAXIMUM_ROUNDS + 1


def test_a_handler_that_asks_for_another_lanes_session_is_a_bug_and_held(
    decider: Decider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_handler(monkeypatch, lambda *asked: Need((SessionOf("somebody else"),)))
    (outcome,) = decider.decide(jobs(started("a")), {}, {})
    assert (outcome.state, "NotPrefetched" in str(outcome.error)) == ("held", True)


def test_events_that_cause_one_another_too_deeply_are_held(decider: Decider) -> None:
    assert decider.decide(jobs(started("a"), depth=MAXIMUM_DEPTH - 1), {}, {})[0].state == "done"
    (outcome,) = decider.decide(jobs(started("a"), depth=MAXIMUM_DEPTH), {}, {})
    assert (outcome.state, "LoopOfEvents" in str(outcome.error)) == ("held", True)


def test_each_end_of_a_session_that_goes_on_has_a_transaction_of_its_own(decider: Decider) -> None:
    events: list[Event] = [
        started("a"),
        ended("a"),
        started("b"),
        started("a", 2),
        ended("b"),
        ended("a", 2),
        started("a", 3),
    ]
    outcomes = decider.decide(jobs(*events), {}, {})
    found = [[outcome.job.event.key for outcome in wave] for wave in waves(outcomes)]
    assert found == [
        ["a#1/started", "a#1/ended", "b#1/started", "b#1/ended"],
        ["a#2/started", "a#2/ended"],
        ["a#3/started"],
    ]


def test_an_ordinary_batch_is_one_transaction(decider: Decider) -> None:
    outcomes: list[Outcome] = decider.decide(jobs(started("a"), ended("a"), started("b")), {}, {})
    assert waves(outcomes) == [outcomes]
