"""A turn in one transaction: all of it or nothing, bounded, and never in the way of a file."""

import gc
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal, TypeVar, TypeVarTuple, Unpack

import pytest
from tests.daemon.in_process import StillClock
from tests.daemon.store.uncertain import Uncertain
from tests.handlers.examples import declaration

from runward.daemon.engine import turn_transaction
from runward.daemon.engine.deciding import Answers, Decider
from runward.daemon.engine.foreseeing import MOST_BYTES, Foreseen
from runward.daemon.engine.queue import Queue, StoreTrouble, Turned
from runward.daemon.engine.turn_transaction import Decided, TurnTransaction
from runward.daemon.store.batch import Batch, Job, Observation, Rows
from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.tables import problems
from runward.daemon.store.tables.table import Fold
from runward.daemon.store.transaction import Reader
from runward.handlers import route
from runward.handlers.model.asking import Given, NotYet, ask
from runward.handlers.model.effects import Deciding, Effects, Emit
from runward.handlers.model.events import Event
from runward.handlers.model.outcomes import OutcomeFile, OutcomesIn
from runward.handlers.model.requests import ScanRequested
from runward.handlers.model.sessions import (
    AttemptStarted,
    OpenAttempt,
    OpenSession,
    Reason,
    Session,
    SessionOf,
)

GOOD = Rows(problems.INSERT, [("p", None, "is wrong", None, 1.0)])
Fate = Literal["done, but told to have failed", "not done"]


@dataclass
class Tokens:
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def token(self) -> str:
        return f"t{next(self.numbers)}"


@dataclass
class Desk:
    """A queue over a store of its own, and who decides."""

    store: Store
    connection: Uncertain
    queue: Queue
    decider: Decider
    seen: list[tuple[str, int]] = field(default_factory=list)
    """Which questions were asked of the store, with the sessions that were there."""

    async def turn(self, *events: Event, due: int = 0, earlier: Decided | None = None) -> Turned:
        jobs = await self.queue.due(due) if due else []
        observed = [Observation(event.key, [event], [GOOD]) for event in events]
        return await self.queue.turn(self.decider, observed, jobs, earlier)

    async def finish(self, turned: Turned) -> Turned:
        """The rest of a turn, as the worker does it."""
        assert turned.undecided is not None
        await self.decider.finish(turned.undecided, _at_once, _never)
        return await self.turn(earlier=Decided(turned.claim, turned.undecided.results()))

    async def jobs(self) -> list[tuple[object, ...]]:
        return list(
            await self.store.read(
                "select lane, state from jobs where handler not like 'bundle/%' order by id"
            )
        )


Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def _at_once(function: Callable[[Unpack[Arguments]], Result], /, *arguments: *Arguments) -> Result:
    return function(*arguments)


async def _never(why: str) -> None:
    raise AssertionError(why)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    migrate(tmp_path / "runward.db")
    connection = Uncertain(await connect(tmp_path / "runward.db"))
    store, clock, answers = Store(connection), StillClock(), Answers()
    await store.take_over()
    queue = Queue(store, clock, Tokens())
    await queue.start()
    await queue.due(1)  # as every daemon's first turn does
    queue.may_be_due = True
    desk = Desk(store, connection, queue, Decider(answers, store, clock))

    async def sessions(
        reader: Reader, asked: Sequence[SessionOf], jobs: Sequence[Job]
    ) -> Mapping[SessionOf, Session | None]:
        ((number,),) = await reader.read("select count(*) from sessions")
        desk.seen += [(question.key, int(str(number))) for question in asked]
        return dict.fromkeys(asked)

    answers.from_store(SessionOf, sessions)
    answers.at_once(OutcomesIn, lambda question: ())
    yield desk
    await store.close()


def start(lane: str) -> AttemptStarted:
    return AttemptStarted(lane, 1, 1.0, declaration())


def open_session(key: str) -> OpenSession:
    return OpenSession(
        key, 1.0, declaration(), "live", Reason("run.started.ok", "it started"), "daemon", None, None, None
    )


def impossible(key: str) -> OpenAttempt:
    """An effect that the store must refuse: there is no such session."""
    return OpenAttempt(key, 2, 1.0, "completed", Reason("run.started.resumed", "no"), "daemon")


def decide(monkeypatch: pytest.MonkeyPatch, handler: Callable[[Event], Effects | Deciding]) -> None:
    def decided(name: str, event: Event, given: Given) -> route.Decision:
        return () if name.startswith("bundle/") else handler(event)

    monkeypatch.setattr(route, "decide", decided)


def following(event: Event, lanes: Mapping[str, str]) -> Effects:
    """The event opens its session, and another one begins."""
    follower = lanes.get(event.lane)
    return (open_session(event.lane), *(() if follower is None else (Emit(start(follower)),)))


def needs_file(event: Event) -> Deciding:
    answer: Sequence[OutcomeFile] = yield from ask(OutcomesIn(event.lane, event.lane, ()))  # type: ignore[assignment] # it is never unreadable here
    return (open_session(event.lane),) if not answer else ()


async def test_what_follows_is_decided_and_applied_in_the_same_commit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(monkeypatch, lambda event: following(event, {"a": "b", "b": "c"}))
    before = desk.store.commits
    turned = await desk.turn(start("a"))
    assert desk.store.commits == before + 1
    assert [result.job.lane for result in turned.completed] == ["a", "b", "c"]
    assert turned.undecided is None
    assert await desk.store.read("select key from sessions order by key") == [("a",), ("b",), ("c",)]
    assert await desk.jobs() == [("a", "done"), ("b", "done"), ("c", "done")]


async def test_what_a_turn_held_is_freed_when_it_is_over(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(monkeypatch, lambda event: following(event, {"a": "b"}))
    before = _held_by_turns()
    gc.disable()
    try:
        await desk.turn(start("a"))
        await desk.store.read("select 1")  # its thread lets go of the turn's work
        left = _held_by_turns() - before
    finally:
        gc.enable()
    assert left == set()


def _held_by_turns() -> set[int]:
    """Which batches and transactions there are in this process; other tests may have left some."""
    return {id(each) for each in gc.get_objects() if type(each) in (Batch, TurnTransaction)}


async def test_a_job_that_ends_in_its_own_turn_is_written_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(monkeypatch, lambda event: following(event, {"a": "b"}))
    await desk.store.read("create temp table changes (id)")
    for deed in ("insert", "update"):
        await desk.store.read(
            f"create temp trigger t_{deed} after {deed} on main.jobs begin insert into changes values (new.id); end"
        )
    await desk.turn(start("a"))
    assert await desk.store.read("select max(n) from (select count(*) n from changes group by id)") == [(1,)]


async def test_a_later_round_sees_what_an_earlier_one_wrote(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asks(event: Event) -> Deciding:
        yield from ask(SessionOf(event.lane))
        return following(event, {"a": "b", "b": "c"})

    decide(monkeypatch, asks)
    await desk.turn(start("a"))
    assert desk.seen == [("a", 0), ("b", 1), ("c", 2)]


async def test_a_job_that_needs_a_file_is_claimed_and_decided_outside(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    def open_file(question: OutcomesIn) -> tuple[OutcomeFile, ...]:
        opened.append(desk.connection.is_open)
        return ()

    desk.decider._answers.at_once(OutcomesIn, open_file)
    decide(monkeypatch, needs_file)
    turned = await desk.turn(start("a"))
    assert (turned.completed, opened) == ([], [])
    assert await desk.store.read("select state, token from jobs where lane = 'a'") == [
        ("running", turned.claim.token)
    ]
    finished = await desk.finish(turned)
    assert [result.job.lane for result in finished.completed] == ["a"]
    assert opened == [False], "no transaction was open meanwhile"
    assert await desk.jobs() == [("a", "done")]


def foresee(monkeypatch: pytest.MonkeyPatch, asks: Callable[[Event], Deciding]) -> None:
    monkeypatch.setattr(route, "foreseeing", lambda event: "sessions/ended")
    monkeypatch.setattr(route, "foresee", asks)


async def foreseen_turn(desk: Desk, *events: Event) -> tuple[Turned, Foreseen]:
    foreseen = await desk.decider.foresee(events, _at_once, _never)
    observed = [Observation(event.key, [event]) for event in events]
    return await desk.queue.turn(desk.decider, observed, (), foreseen=foreseen), foreseen


async def test_a_job_whose_file_was_foreseen_is_decided_in_the_first_transaction_and_written_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    def open_file(question: OutcomesIn) -> tuple[OutcomeFile, ...]:
        opened.append(desk.connection.is_open)
        return ()

    desk.decider._answers.at_once(OutcomesIn, open_file)
    decide(monkeypatch, needs_file)
    foresee(monkeypatch, needs_file)
    await desk.store.read("create temp table updates (id)")
    await desk.store.read(
        "create temp trigger updated after update on main.jobs begin insert into updates values (new.id); end"
    )
    before = desk.store.commits
    turned, _ = await foreseen_turn(desk, start("a"), start("b"))
    assert turned.undecided is None
    assert [result.job.lane for result in turned.completed] == ["a", "b"]
    assert desk.store.commits == before + 1
    assert opened == [False, False], "each once, before the transaction"
    assert await desk.jobs() == [("a", "done"), ("b", "done")]
    assert await desk.store.read("select count(*) from updates") == [(0,)]


@pytest.mark.parametrize(
    "asked_before",
    [OutcomesIn("b", "b", ()), OutcomesIn("a", "a", ("other",)), None],
    ids=["about another run", "about other files", "nothing"],
)
async def test_a_question_that_was_not_foreseen_is_asked_after_the_transaction(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, asked_before: OutcomesIn | None
) -> None:
    def asks(event: Event) -> Deciding:
        if asked_before is not None:
            yield from ask(asked_before)
        return ()

    decide(monkeypatch, needs_file)
    foresee(monkeypatch, asks)
    turned, _ = await foreseen_turn(desk, start("a"))
    assert turned.completed == []
    await desk.finish(turned)
    assert await desk.jobs() == [("a", "done")]


async def test_what_was_foreseen_of_one_lane_is_no_answer_for_another(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def needs_file_of_a(event: Event) -> Deciding:
        yield from ask(OutcomesIn("a", "a", ()))
        return ()

    decide(monkeypatch, needs_file_of_a)
    foresee(monkeypatch, lambda event: needs_file_of_a(event) if event.lane == "a" else iter(()))  # type: ignore[arg-type,return-value] # nothing is asked
    turned, _ = await foreseen_turn(desk, start("a"), start("b"))
    assert [result.job.lane for result in turned.completed] == ["a"]


async def test_no_more_is_kept_or_read_before_the_turn_than_memory_allows(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def open_file(question: OutcomesIn) -> tuple[OutcomeFile, ...]:
        read.append(question.path)
        return ()

    desk.decider._answers.at_once(OutcomesIn, open_file, size=lambda answer: MOST_BYTES // 2)
    decide(monkeypatch, needs_file)
    foresee(monkeypatch, needs_file)
    turned, foreseen = await foreseen_turn(desk, *(start(lane) for lane in "abcd"))
    assert [result.job.lane for result in turned.completed] == ["a", "b"]
    assert read == ["a", "b", "c"], "the third one was too much"
    assert not foreseen.problems
    await desk.finish(turned)
    assert [state for _, state in await desk.jobs()] == ["done"] * 4


async def test_a_mistake_while_foreseeing_is_told_and_costs_only_the_foresight(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(event: Event) -> Deciding:
        raise RuntimeError(f"about {event.lane}")

    decide(monkeypatch, needs_file)
    foresee(monkeypatch, fails)
    turned, foreseen = await foreseen_turn(desk, start("a"))
    assert [problem.strip().splitlines()[-1] for problem in foreseen.problems] == ["RuntimeError: about a"]
    await desk.finish(turned)
    assert await desk.jobs() == [("a", "done")]


async def test_nothing_follows_from_the_others_while_a_job_needs_a_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(
        monkeypatch,
        lambda event: needs_file(event) if event.lane == "slow" else following(event, {"a": "b"}),
    )
    turned = await desk.turn(start("slow"), start("a"))
    assert [result.job.lane for result in turned.completed] == ["a"]
    assert await desk.jobs() == [("slow", "running"), ("a", "done"), ("b", "waiting")]
    await desk.finish(turned)
    assert desk.queue.may_be_due
    await desk.turn(due=10)
    assert await desk.jobs() == [("slow", "done"), ("a", "done"), ("b", "done")]


async def test_what_a_round_applied_does_not_count_twice_for_its_undecided_jobs(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asks_later(event: Event) -> Deciding:
        yield from needs_file(event)
        answers.append((yield from ask(SessionOf("a"))))
        return ()

    answers: list[object] = []
    added = Fold(lambda effect: SessionOf(effect.key), lambda known, effect: "as if it were not stored")
    desk.decider._answers.folds = {OpenSession: (added,)}
    decide(
        monkeypatch, lambda event: asks_later(event) if event.lane == "slow" else (open_session(event.lane),)
    )
    await desk.finish(await desk.turn(start("a"), start("slow")))
    assert (desk.seen, answers) == ([("a", 1)], [None]), "the store says it, and nothing is added"


async def test_a_known_event_and_one_that_comes_twice_are_recorded_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(monkeypatch, lambda event: (open_session(event.lane),))
    await desk.turn(start("a"))
    turned = await desk.turn(start("a"), start("b"), start("b"))
    assert [result.job.lane for result in turned.completed] == ["b"]
    assert await desk.jobs() == [("a", "done"), ("b", "done")]


async def test_a_turn_is_bounded_in_events(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count(1)
    decide(monkeypatch, lambda event: (Emit(start(f"storm-{next(numbers)}")),))
    monkeypatch.setattr(turn_transaction, "MOST_EVENTS", 10)
    turned = await desk.turn(start("a"))
    assert len(turned.completed) == 10
    assert (await desk.jobs())[-1] == ("storm-10", "waiting")
    turned = await desk.turn(due=10)
    assert turned.completed[0].job.lane == "storm-10", "the next turn goes on with it"
    assert len(turned.completed) <= 11


async def test_a_turn_decides_a_part_of_what_one_event_is_followed_by(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    storm = tuple(Emit(start(f"storm-{number}")) for number in range(50))
    decide(monkeypatch, lambda event: storm if event.lane == "a" else ())
    monkeypatch.setattr(turn_transaction, "MOST_EVENTS", 10)
    assert len((await desk.turn(start("a"))).completed) == 10
    assert [state for _, state in await desk.jobs()].count("waiting") == 41, "all are recorded"
    while due := (await desk.turn(due=10)).completed:
        assert len(due) <= 10
    assert {state for _, state in await desk.jobs()} == {"done"}


async def test_a_turn_is_bounded_in_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count(1)
    decide(monkeypatch, lambda event: (Emit(start(f"storm-{next(numbers)}")),))
    clock = desk.queue._clock
    assert isinstance(clock, StillClock)
    seconds = count(0, 0.02)
    monkeypatch.setattr(clock, "monotonic", lambda: next(seconds))
    turned = await desk.turn(start("a"))
    assert 1 <= len(turned.completed) < 10


@pytest.mark.parametrize("lanes", ["ab", "ba"])
async def test_a_lane_whose_job_must_wait_goes_no_further_in_this_turn(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, lanes: str
) -> None:
    def waits(event: Event) -> Effects:
        if event.key == "a#1/started":
            raise NotYet(1e12)
        if event.lane == "a":
            return ()
        return (Emit(AttemptStarted("a", 2, 1.0, None)),)

    decide(monkeypatch, waits)
    await desk.turn(*map(start, lanes))
    standing = {"a": "waiting", "b": "done"}
    assert await desk.jobs() == [*((lane, standing[lane]) for lane in lanes), ("a", "waiting")]
    assert await desk.queue.due(10) == []


async def test_a_new_event_of_a_lane_follows_the_job_that_was_due_in_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_transaction, "MOST_EVENTS", 1)
    decide(monkeypatch, lambda event: () if event.lane == "a" else (Emit(start("a")),))
    await desk.turn(ScanRequested("00000000-0000-4000-8000-000000000000", 1.0))
    assert (await desk.jobs())[-1] == ("a", "waiting")
    turned = await desk.turn(AttemptStarted("a", 2, 1.0, None), due=10)
    assert [result.job.event.key for result in turned.completed] == ["a#1/started", "a#2/started"]
    await desk.turn(AttemptStarted("a", 3, 1.0, None))
    assert (await desk.jobs())[1:] == [("a", "done")] * 3, "and nothing waits in the lane any more"


async def test_a_refused_turn_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(
        monkeypatch,
        lambda event: (impossible("nobody"),) if event.lane == "b" else following(event, {"a": "b"}),
    )
    head = desk.queue._head
    with pytest.raises(sqlite3.IntegrityError):
        await desk.turn(start("a"))
    assert desk.queue._head == head
    assert await desk.store.read("select * from events") == await desk.store.read("select * from jobs") == []


@pytest.mark.parametrize("fate", ["done, but told to have failed", "not done"])
async def test_an_unknown_commit_of_a_turn_is_found_out(
    desk: Desk, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(monkeypatch, lambda event: following(event, {"a": "b"}))
    desk.connection.commits = [fate]
    if fate == "not done":
        with pytest.raises(StoreTrouble):
            await desk.turn(start("a"))
        assert await desk.jobs() == []
    turned = await desk.turn(start("a"))
    assert [result.job.lane for result in turned.completed] == ["a", "b"]
    assert await desk.jobs() == [("a", "done"), ("b", "done")]
    await desk.turn(start("c"))
    assert await desk.store.read("select seq from events order by seq") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("fate", ["done, but told to have failed", "not done"])
@pytest.mark.parametrize("outcome", ["is done", "waits", "needs a file"])
async def test_an_unknown_commit_of_a_job_that_was_due_is_found_out(
    desk: Desk, fate: Fate, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decided(event: Event) -> Effects | Deciding:
        if outcome == "needs a file":
            return needs_file(event)
        if outcome == "waits":
            raise RuntimeError("it is held")
        return (open_session(event.lane),)

    monkeypatch.setattr(turn_transaction, "MOST_EVENTS", 1)
    decide(monkeypatch, lambda event: (Emit(start("a")),))
    await desk.turn(ScanRequested("00000000-0000-4000-8000-000000000000", 1.0))
    assert (await desk.jobs())[-1] == ("a", "waiting")
    decide(monkeypatch, decided)
    desk.connection.commits = [fate]
    if fate == "not done":
        with pytest.raises(StoreTrouble):
            await desk.turn(due=10)
    turned = await desk.turn(due=10)
    if outcome == "needs a file":
        turned = await desk.finish(turned)
    assert [result.job.lane for result in turned.completed] == ["a"]
    assert (await desk.jobs())[-1] == ("a", "held" if outcome == "waits" else "done")


@pytest.mark.parametrize("fate", ["done, but told to have failed", "not done"])
async def test_an_unknown_commit_of_what_was_decided_outside_is_found_out(
    desk: Desk, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(monkeypatch, needs_file)
    claimed = await desk.turn(start("a"))
    desk.connection.commits = [fate]
    if fate == "not done":
        with pytest.raises(StoreTrouble):
            await desk.finish(claimed)
        assert await desk.jobs() == [("a", "running")]
    await desk.finish(claimed)
    assert await desk.jobs() == [("a", "done")]
