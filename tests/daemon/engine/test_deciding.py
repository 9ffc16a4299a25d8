"""Deciding a batch: lanes side by side, jobs of a lane in order, questions answered in bulk."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, TypeVarTuple, Unpack

import pytest
from tests.daemon.in_process import StillClock
from tests.handlers.examples import HASH, declaration

from runward.config.bundle import BundleRules
from runward.daemon.engine.deciding import LONGEST_WAIT, MOST_QUESTIONS, Answers, Asked, Decider
from runward.daemon.store.batch import Job, JobResult
from runward.daemon.store.tables.all import FOLDS
from runward.daemon.store.transaction import Reader, Row, Value
from runward.handlers import route
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.chains import IsHeard, SetStep, SlotsNow, SlotsStanding, StepStanding
from runward.handlers.model.contracts import Declarations, DeclaredContract
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.events import MAXIMUM_DEPTH, Event
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import OutcomesIn
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    EndAttempt,
    LaunchOf,
    LinkedSessions,
    LinkedSessionsOf,
    OpenAttempt,
    OpenSession,
    ProcessesOf,
    Session,
    SessionOf,
)

Decide = Callable[[str, Event, Given], route.Decision]
Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Empty:
    """A store without any rows."""

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return []


class Told:
    """Answers of a store that is empty, and what was asked of it."""

    def __init__(self) -> None:
        self.rounds: list[list[Asked]] = []
        self.waited: list[str] = []
        self.answers = Answers(folds=dict(FOLDS))
        self.answers.from_store(SessionOf, self._none)
        self.answers.from_store(LinkedSessionsOf, self._nothing_linked)
        self.answers.at_once(LaunchOf, lambda question: None)
        self.answers.at_once(BundleRulesOf, lambda question: BundleRules())
        self.answers.at_once(OutcomesIn, lambda question: ())
        self.answers.at_once(IsHeard, lambda question: False)
        self.answers.at_once(RecipientsOf, lambda question: ())
        self.answers.at_once(DeclaredContract, lambda question: Declarations(None, None))

    async def decide(self, jobs: Sequence[Job]) -> list[JobResult]:
        return await Decider(self.answers, Empty(), StillClock()).decide(
            jobs, self._in_thread, self._wait_out
        )

    async def _none(
        self, store: Reader, asked: Sequence[SessionOf], jobs: Sequence[Job]
    ) -> Mapping[SessionOf, Session | None]:
        self.rounds.append([*asked])
        return dict.fromkeys(asked)

    async def _nothing_linked(
        self, store: Reader, asked: Sequence[LinkedSessionsOf], jobs: Sequence[Job]
    ) -> Mapping[LinkedSessionsOf, LinkedSessions]:
        self.rounds.append([*asked])
        return dict.fromkeys(asked, LinkedSessions())

    async def _in_thread(
        self, function: Callable[[Unpack[Arguments]], Result], /, *arguments: *Arguments
    ) -> Result:
        return function(*arguments)

    async def _wait_out(self, why: str) -> None:
        self.waited.append(why)


@pytest.fixture
def told() -> Told:
    return Told()


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


async def test_a_job_sees_what_the_jobs_before_it_in_its_lane_did(told: Told) -> None:
    outcomes = await told.decide(jobs(started("a"), ended("a"), started("a", 2), ended("a", 2)))
    kinds = [type(outcome.effects[0]) for outcome in outcomes]
    assert kinds == [OpenSession, EndAttempt, OpenAttempt, EndAttempt]
    assert {outcome.state for outcome in outcomes} == {"done"}


async def test_lanes_do_not_see_one_another(told: Told) -> None:
    outcomes = await told.decide(jobs(started("a"), ended("b")))
    assert [type(outcome.effects[0]) for outcome in outcomes] == [OpenSession, Explain]


async def test_a_question_of_many_jobs_is_one_question_to_the_store(told: Told) -> None:
    await told.decide(jobs(*(started(str(number)) for number in range(100)), ended("0")))
    assert told.rounds == [
        [SessionOf(str(number)) for number in range(100)],
        [LinkedSessionsOf("0")],
    ]


async def test_a_round_stops_between_two_files_after_some_time_and_continues_there(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StillClock()
    opened: list[str] = []

    def slowly(question: RecipientsOf) -> tuple[()]:
        clock.move(1.0)
        opened.append(question.kind)
        return ()

    def reads(lane: str) -> Deciding:
        yield from ask(SessionOf(lane))
        yield from ask(RecipientsOf(lane))
        return ()

    told.answers.at_once(RecipientsOf, slowly)
    with_handler(monkeypatch, lambda handler, event, given: reads(event.lane))
    decider = Decider(told.answers, Empty(), clock)
    round_ = decider.begin(jobs(*map(started, "abcde")))
    done: list[list[str]] = []
    while not round_.is_over:
        await decider.finish(round_, told._in_thread, told._wait_out, 1.5)
        done.append([*opened])
    assert done == [["a", "b"], ["a", "b", "c", "d"], ["a", "b", "c", "d", "e"]]
    assert told.rounds == [[SessionOf(lane) for lane in "abcde"]], "the store is asked once"
    assert [each.job.event.lane for each in round_.results()] == [*"abcde"]


async def test_lanes_that_ask_the_same_see_what_the_one_before_decided(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slots(
        store: Reader, asked: Sequence[SlotsNow], jobs: Sequence[Job]
    ) -> Mapping[SlotsNow, SlotsStanding]:
        return dict.fromkeys(asked, SlotsStanding())

    def take(lane: str) -> Deciding:
        standing = yield from ask(SlotsNow())
        seen.append(len(standing.running))
        return (SetStep(lane, 1.0, StepStanding(0, "running", None), None),)

    seen: list[int] = []
    told.answers.from_store(SlotsNow, slots)
    with_handler(monkeypatch, lambda handler, event, given: take(event.lane))
    await told.decide(jobs(started("a"), started("b"), started("c")))
    assert seen == [0, 1, 2]


async def test_what_another_lane_decided_in_the_batch_is_seen_however_late_it_is_asked(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Session | None] = []
    of_route = route.decide

    def looks_at_a(handler: str, event: Event, given: Given) -> route.Decision:
        return look() if event.lane == "b" else of_route(handler, event, given)

    def look() -> Deciding:
        yield from ask(LinkedSessionsOf("b"))
        seen.append((yield from ask(SessionOf("a"))))
        return ()

    with_handler(monkeypatch, looks_at_a)
    await told.decide(jobs(started("a"), started("b")))
    (session,) = seen
    assert session is not None
    assert session.status == "running"


async def test_a_handler_that_fails_stops_its_own_lane_and_nobody_elses(told: Told) -> None:
    def fails(question: DeclaredContract) -> Declarations:
        raise ZeroDivisionError("a bug of ours")

    told.answers.at_once(DeclaredContract, fails)
    outcomes = await told.decide(jobs(started("a", playbook="p"), ended("a"), started("b"), ended("b")))
    assert [outcome.state for outcome in outcomes] == ["held", "waiting", "done", "done"]
    assert outcomes[0].error is not None
    assert "ZeroDivisionError: a bug of ours" in outcomes[0].error
    assert outcomes[1].error is None


async def test_a_question_that_cannot_be_answered_harms_none_that_was_asked_with_it(told: Told) -> None:
    async def one_is_broken(
        store: Reader, asked: Sequence[SessionOf], among: Sequence[Job]
    ) -> Mapping[SessionOf, Session | None]:
        if SessionOf("b") in asked:
            raise ValueError("its row can't be read")
        return dict.fromkeys(asked)

    told.answers.from_store(SessionOf, one_is_broken)
    outcomes = await told.decide(jobs(started("a"), started("b"), started("c")))
    assert [outcome.state for outcome in outcomes] == ["done", "held", "done"]
    assert "its row can't be read" in str(outcomes[1].error)


async def test_an_answer_that_leaves_a_question_out_is_never_none(told: Told) -> None:
    async def forgets(
        store: Reader, asked: Sequence[SessionOf], among: Sequence[Job]
    ) -> Mapping[SessionOf, Session | None]:
        return {}

    told.answers.from_store(SessionOf, forgets)
    (outcome,) = await told.decide(jobs(started("a")))
    assert (outcome.state, "KeyError" in str(outcome.error)) == ("held", True)


async def test_a_store_that_does_not_answer_is_asked_again(told: Told) -> None:
    busy = iter((True, True, False))

    async def answers_at_last(
        store: Reader, asked: Sequence[SessionOf], among: Sequence[Job]
    ) -> Mapping[SessionOf, Session | None]:
        if next(busy):
            raise sqlite3.OperationalError("database is locked")
        return dict.fromkeys(asked)

    told.answers.from_store(SessionOf, answers_at_last)
    (outcome,) = await told.decide(jobs(started("a")))
    assert (outcome.state, told.waited) == ("done", ["database is locked"] * 2)


@pytest.mark.parametrize(
    ("tries", "wait"), [(0, 0.5), (1, 1.0), (4, 8.0), (7, LONGEST_WAIT), (10_000, LONGEST_WAIT)]
)
async def test_what_the_world_refuses_is_tried_again_with_backoff_for_ever(
    told: Told, tries: int, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object) -> Deciding:
        yield from ask(SessionOf("a"))
        raise TryLater("the disk is busy")

    with_handler(monkeypatch, refused)
    (first, second) = await told.decide(jobs(started("a"), ended("a"), tries=tries))
    assert (first.state, first.error, first.run_after) == (
        "waiting",
        "the disk is busy",
        StillClock().now() + wait,
    )
    assert (second.state, second.error) == ("waiting", None)


async def test_a_handler_that_asks_for_ever_is_a_bug_and_held(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def asks_on(handler: str, event: Event, given: Given) -> Deciding:
        while True:
            asked.append(1)
            yield from ask(SessionOf(event.lane))

    with_handler(monkeypatch, asks_on)
    (outcome,) = await told.decide(jobs(started("a")))
    assert outcome.state == "held"
    assert "TooManyQuestions" in str(outcome.error)
    assert len(asked) == MOST_QUESTIONS


async def test_a_question_that_nobody_answers_is_a_bug_and_held(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asks(*given: object) -> Deciding:
        yield from ask(ProcessesOf("a"))
        return ()

    with_handler(monkeypatch, asks)
    (outcome,) = await told.decide(jobs(started("a")))
    assert (outcome.state, "nobody answers ProcessesOf" in str(outcome.error)) == ("held", True)


async def test_events_that_cause_one_another_too_deeply_are_held(told: Told) -> None:
    assert (await told.decide(jobs(started("a"), depth=MAXIMUM_DEPTH - 1)))[0].state == "done"
    (outcome,) = await told.decide(jobs(started("a"), depth=MAXIMUM_DEPTH))
    assert (outcome.state, "LoopOfEvents" in str(outcome.error)) == ("held", True)
