"""What is owed: put once, claimed under a token, completed once, held where it must be, and nobody else's lane stopped."""

import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import anyio
import pytest
from tests.daemon.in_process import StillClock
from tests.daemon.store.uncertain import Uncertain
from tests.handlers.examples import declaration

from runward.daemon.engine import queue as queueing
from runward.daemon.engine.queue import Queue, StoreTrouble
from runward.daemon.store.batch import Claim, Job, JobResult, Observation, Rows, Write
from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.tables import jobs, problems
from runward.daemon.store.transaction import EpochRefused, Fenced, Statement
from runward.handlers.model.chains import ChainRunCancelRequested
from runward.handlers.model.effects import Effect, Emit, Explain
from runward.handlers.model.events import Event
from runward.handlers.model.requests import ReleaseJob, ScanRequested
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    EndAttempt,
    OpenAttempt,
    OpenSession,
    Reason,
    SessionFinished,
)

BAD = Rows(problems.INSERT, [("p", None, None, None, 1.0)])
GOOD = Rows(problems.INSERT, [("p", None, "is wrong", None, 1.0)])
Fate = Literal["done, but told to have failed", "not done"]


@dataclass
class Tokens:
    """Tokens that tests can name: `t1`, `t2`, …"""

    numbers: Iterator[int]

    def token(self) -> str:
        return f"t{next(self.numbers)}"


@dataclass
class Desk:
    """A queue over a store of its own, and the clock that it goes by."""

    path: Path
    clock: StillClock
    connection: Uncertain
    store: Store
    queue: Queue

    async def put(self, *events: Event, due: int = 0) -> Claim:
        jobs = await self.queue.due(due) if due else []
        return await self.queue.put([observation(event) for event in events], jobs)

    async def complete(self, claim: Claim, *outcomes: JobResult) -> list[JobResult]:
        completed: list[JobResult] = []
        await self.queue.complete(claim, outcomes or [done(job) for job in claim.jobs], completed)
        return completed

    async def jobs(self) -> list[tuple[object, ...]]:
        """Lane and state of every job, in order."""
        return list(
            await self.store.read("select lane, state from jobs where handler <> 'bundle/write' order by id")
        )

    async def keys(self) -> list[object]:
        return [row[0] for row in await self.store.read("select key from events order by seq")]


@asynccontextmanager
async def open_desk(path: Path, clock: StillClock) -> AsyncIterator[Desk]:
    connection = Uncertain(await connect(path))
    store = Store(connection)
    await store.take_over()
    queue = Queue(store, clock, Tokens(count(1)))
    await queue.start()
    await queue.due(1)  # as every daemon's first turn does
    queue.may_be_due = True
    yield Desk(path, clock, connection, store, queue)
    await store.close()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    migrate(tmp_path / "runward.db")
    async with open_desk(tmp_path / "runward.db", StillClock()) as opened:
        yield opened


def start(lane: str, attempt: int = 1) -> AttemptStarted:
    return AttemptStarted(lane, attempt, 1.0, declaration())


def observation(event: Event, *rows: Rows) -> Observation:
    return Observation(event.key, [event], rows)


def done(job: Job, *effects: Effect) -> JobResult:
    return JobResult(job, "done", effects)


def open_session(key: str) -> OpenSession:
    return OpenSession(
        key, 1.0, declaration(), "live", Reason("run.started.ok", "it started"), "daemon", None, None, None
    )


def impossible(key: str) -> OpenAttempt:
    """An effect that the store must refuse: there is no such session."""
    return OpenAttempt(key, 2, 1.0, "completed", Reason("run.started.resumed", "no"), "daemon")


# --- putting


async def test_an_event_is_put_with_its_job_claimed_in_the_same_breath(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    assert [(job.lane, job.handler) for job in claim.jobs] == [("a", "sessions/opened")]
    assert await desk.store.read("select state, token, epoch from jobs") == [("running", claim.token, 1)]
    await desk.complete(claim)
    assert await desk.store.read("select state, token from jobs") == [("done", None)]


async def test_what_is_remembered_is_put_with_the_events_or_not_at_all(desk: Desk) -> None:
    await desk.queue.put([observation(start("a"), GOOD)], [])
    assert await desk.store.read("select count(*) from problems") == [(1,)]
    await desk.queue.put([observation(start("b"), BAD)], [])
    assert await desk.keys() == ["a#1/started"]


async def test_a_known_key_is_a_no_op(desk: Desk) -> None:
    await desk.complete(await desk.put(start("a")))
    claim = await desk.put(start("a"))
    assert claim.jobs == ()
    assert await desk.keys() == ["a#1/started"]
    assert desk.queue.tally.refused == []


async def test_known_keys_are_left_out_and_the_others_of_the_batch_are_put(desk: Desk) -> None:
    await desk.complete(await desk.put(start("a")))
    claim = await desk.put(start("b"), start("a"), start("c"))
    assert sorted(job.lane for job in claim.jobs) == ["b", "c"]
    assert await desk.keys() == ["a#1/started", "b#1/started", "c#1/started"]


async def test_a_known_key_still_brings_what_is_to_be_remembered(desk: Desk) -> None:
    await desk.complete(await desk.put(start("a")))
    await desk.queue.put([observation(start("a"), GOOD)], [])
    assert await desk.store.read("select count(*) from problems") == [(1,)]


async def test_two_reports_of_one_event_in_one_batch_are_one(desk: Desk) -> None:
    claim = await desk.put(start("a"), start("b"), start("a"))
    assert sorted(job.lane for job in claim.jobs) == ["a", "b"]
    assert sorted(await desk.keys(), key=str) == ["a#1/started", "b#1/started"]
    assert desk.queue.tally.refused == []


@pytest.mark.parametrize("guilty", range(7))
async def test_halving_leaves_out_the_guilty_observation_alone(desk: Desk, guilty: int) -> None:
    observed = [
        observation(start(f"l{number}"), *([BAD] if number == guilty else [GOOD])) for number in range(7)
    ]
    claim = await desk.queue.put(observed, [])
    assert {job.lane for job in claim.jobs} == {f"l{number}" for number in range(7) if number != guilty}
    ((subject, why),) = desk.queue.tally.refused
    assert subject == f"l{guilty}#1/started"
    assert "IntegrityError" in why
    assert desk.queue.tally.halved > 0
    assert len(await desk.complete(claim)) == 6


async def test_a_guilty_observation_does_not_keep_due_jobs_from_being_claimed(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    await desk.complete(claim, JobResult(claim.jobs[0], "waiting", error="busy", run_after=0.0))
    due = await desk.queue.due(10)
    again = await desk.queue.put([observation(start("b"), BAD)], due)
    assert [job.lane for job in again.jobs] == ["a"]
    assert len(desk.queue.tally.refused) == 1


async def test_the_chain_is_unbroken_after_halving(desk: Desk) -> None:
    for number in range(3):
        observed = [
            observation(start(f"l{number}-{each}"), *([BAD] if each == 1 else [])) for each in range(4)
        ]
        await desk.complete(await desk.queue.put(observed, []))
    rows = await desk.store.read("select seq, hash from events order by seq")
    assert [row[0] for row in rows] == list(range(1, 10))
    assert len({row[1] for row in rows}) == 9


async def test_a_statement_without_a_place_in_the_transaction_is_a_bug_and_not_dropped(desk: Desk) -> None:
    stray = Rows(Write("delete from problems where path = 'p'"), [()])
    with pytest.raises(KeyError, match="no place"):
        await desk.queue.put([observation(start("a"), stray)], [])


# --- completing


def ended(key: str, attempt: int) -> EndAttempt:
    reason = Reason("run.completed.ok", "it is over")
    end = ("declared", "running", "completed", reason, "daemon", None, None)
    return EndAttempt(key, attempt, 2.0, *end)  # type: ignore[arg-type] # a tuple of literals


def resumed(key: str, attempt: int) -> OpenAttempt:
    return OpenAttempt(key, attempt, 3.0, "completed", Reason("run.started.resumed", "it goes on"), "daemon")


async def test_a_session_that_ends_and_goes_on_twice_in_one_batch_is_one_transaction(desk: Desk) -> None:
    claim = await desk.put(start("a"), start("a", 2), start("a", 3))
    commits = desk.store.commits
    first, second, third = claim.jobs
    await desk.complete(
        claim,
        done(first, open_session("a"), ended("a", 1)),
        done(second, resumed("a", 2), ended("a", 2)),
        done(third, resumed("a", 3)),
    )
    assert desk.store.commits == commits + 1
    assert await desk.store.read("select status, attempt, ended_by from sessions") == [("running", 3, None)]
    assert await desk.store.read("select attempt, status from attempts") == [
        (1, "completed"),
        (2, "completed"),
        (3, "running"),
    ]
    history = await desk.store.read("select attempt, replaced, status from status_history order by id")
    assert history[1:] == [
        (1, "running", "completed"),
        (2, "completed", "running"),
        (2, "running", "completed"),
        (3, "completed", "running"),
    ]


async def test_a_job_is_completed_once_and_only_under_its_token(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    stranger = claim._replace(token="somebody else's")
    with pytest.raises(Fenced):
        await desk.complete(stranger, done(claim.jobs[0], open_session("a")))
    assert await desk.store.read("select key from sessions") == []
    await desk.complete(claim, done(claim.jobs[0], open_session("a")))
    with pytest.raises(Fenced):
        await desk.complete(claim, done(claim.jobs[0], open_session("a2")))
    assert await desk.store.read("select key from sessions") == [("a",)]


@pytest.mark.parametrize("guilty", range(5))
async def test_halving_holds_the_guilty_lane_alone(desk: Desk, guilty: int) -> None:
    claim = await desk.put(*(start(f"l{number}") for number in range(5)))
    outcomes = [
        done(job, impossible(job.lane) if job.lane == f"l{guilty}" else open_session(job.lane))
        for job in claim.jobs
    ]
    completed = await desk.complete(claim, *outcomes)
    assert {(outcome.job.lane, outcome.state) for outcome in completed} == {
        (f"l{number}", "held" if number == guilty else "done") for number in range(5)
    }
    assert {row[0] for row in await desk.store.read("select key from sessions")} == {
        f"l{number}" for number in range(5) if number != guilty
    }
    ((error,),) = await desk.store.read("select error from jobs where state = 'held'")
    assert "the store refused what was decided" in str(error)


async def test_the_jobs_behind_a_guilty_one_wait_and_those_before_it_are_done(desk: Desk) -> None:
    ending = AttemptEnded("a", 1, 2.0, "declared", "completed", "run.completed.ok", "ok")
    claim = await desk.put(start("a"), ending, start("a", 2))
    first, second, third = claim.jobs
    completed = await desk.complete(
        claim, done(first, open_session("a")), done(second, impossible("x")), done(third)
    )
    assert [(outcome.job.id, outcome.state) for outcome in completed] == [
        (first.id, "done"),
        (second.id, "held"),
        (third.id, "waiting"),
    ]
    assert await desk.queue.due(10) == []


async def test_an_emitted_event_is_recorded_with_its_cause_and_depth(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    verdict = SessionFinished("a", 1, 2.0, "completed", "run.completed.ok", None)
    await desk.complete(claim, done(claim.jobs[0], Emit(verdict)))
    assert await desk.store.read("select key, cause, depth from events where seq = 2") == [
        ("a#1/finished", "a#1/started", 1)
    ]


async def test_an_emitted_event_that_is_known_is_a_no_op(desk: Desk) -> None:
    verdict = SessionFinished("a", 1, 2.0, "completed", "run.completed.ok", None)
    await desk.put(verdict)
    claim = await desk.put(start("a"), start("b"))
    completed = await desk.complete(
        claim, done(claim.jobs[0], Emit(verdict)), done(claim.jobs[1], open_session("b"))
    )
    assert [outcome.state for outcome in completed] == ["done", "done"]
    assert (await desk.keys()).count("a#1/finished") == 1


async def test_what_is_decided_and_what_is_said_of_it_are_one_transaction(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    await desk.complete(claim, done(claim.jobs[0], Explain("a", "decided", "so"), impossible("a")))
    assert await desk.store.read("select count(*) from decisions") == [(0,)]


# --- lanes


async def test_a_waiting_job_holds_back_those_behind_it_and_no_other_lane(desk: Desk) -> None:
    claim = await desk.put(start("a"), start("b"))
    later = desk.clock.now() + 30
    waiting, other = claim.jobs
    await desk.complete(claim, JobResult(waiting, "waiting", error="busy", run_after=later), done(other))
    behind = await desk.put(start("a", 2), start("b", 2), start("c"))
    assert sorted(job.lane for job in behind.jobs) == ["b", "c"]
    await desk.complete(behind)
    assert await desk.queue.due(10) == []
    assert await desk.queue.next_due() == later
    desk.clock.move(31)
    desk.queue.may_be_due = True
    due = await desk.queue.due(10)
    assert [(job.lane, job.event.key) for job in due] == [("a", "a#1/started"), ("a", "a#2/started")]
    assert [job.tries for job in due] == [1, 0]
    await desk.complete(await desk.queue.put([], due))
    assert {state for _, state in await desk.jobs()} == {"done"}
    assert (await desk.put(start("a", 3))).jobs != ()


async def test_a_clock_that_was_ahead_while_a_job_failed_makes_it_wait_no_longer_than_the_others(
    desk: Desk,
) -> None:
    claim = await desk.put(start("a"))
    assert await desk.queue.due(10) == []
    desk.clock.move(5000)
    failed = JobResult(claim.jobs[0], "waiting", error="busy", run_after=desk.clock.now() + 5)
    await desk.complete(claim, failed)
    desk.clock.move(-5000)
    assert [job.event.key for job in await desk.queue.due(10)] == ["a#1/started"]


async def test_a_clock_that_was_set_back_makes_nobody_wait_for_it_to_catch_up(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    await desk.complete(
        claim, JobResult(claim.jobs[0], "waiting", error="busy", run_after=desk.clock.now() + 30)
    )
    assert await desk.queue.due(10) == []
    desk.clock.move(-3600)
    desk.queue.may_be_due = True
    assert [job.lane for job in await desk.queue.due(10)] == ["a"]


async def test_only_as_many_due_jobs_as_fit_are_claimed_and_the_rest_keep_their_order(desk: Desk) -> None:
    claim = await desk.put(*(start("a", attempt) for attempt in range(1, 5)))
    await desk.complete(claim, *(JobResult(job, "waiting") for job in claim.jobs))
    seen = []
    for _ in range(4):
        due = await desk.queue.due(1)
        newer = await desk.queue.put([], due)
        seen += [job.event.key for job in newer.jobs]
        await desk.complete(newer)
    assert seen == [f"a#{attempt}/started" for attempt in range(1, 5)]


async def test_a_held_job_stops_its_lane_until_it_is_retried(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    held = claim.jobs[0]
    await desk.complete(claim, JobResult(held, "held", error="a bug"))
    behind = await desk.put(start("a", 2), start("b"))
    assert [job.lane for job in behind.jobs] == ["b"]
    await desk.complete(behind)
    desk.clock.move(1e6)
    assert await desk.queue.due(10) == []
    request = await desk.put(ScanRequested("retry", 1.0))
    await desk.complete(request, done(request.jobs[0], ReleaseJob(held.id, "waiting", "retried")))
    assert [job.event.key for job in await desk.queue.due(10)] == ["a#1/started", "a#2/started"]


async def test_a_held_job_stops_its_lane_also_for_the_second_job_of_an_event_of_another_lane(
    desk: Desk,
) -> None:
    run, step = "cr_0123456789ab", "native:runs/cr_0123456789ab-0-1"
    claim = await desk.put(ChainRunCancelRequested("asked", 1.0, run))
    await desk.complete(claim, JobResult(claim.jobs[0], "held", error="a bug"))
    behind = await desk.put(start(step))
    assert [(job.handler, job.lane) for job in behind.jobs] == [("sessions/opened", step)]
    await desk.complete(behind)
    assert await desk.queue.due(10) == []
    assert await desk.jobs() == [(run, "held"), (step, "done"), (run, "waiting")]


async def test_a_discarded_job_frees_its_lane_and_stays_discarded(desk: Desk) -> None:
    claim = await desk.put(start("a"))
    held = claim.jobs[0]
    await desk.complete(claim, JobResult(held, "held", error="a bug"))
    await desk.put(start("a", 2))
    request = await desk.put(ScanRequested("discard", 1.0))
    await desk.complete(request, done(request.jobs[0], ReleaseJob(held.id, "discarded", "hopeless")))
    assert [job.event.key for job in await desk.queue.due(10)] == ["a#2/started"]
    assert await desk.store.read("select state, error from jobs where id = ?", (held.id,)) == [
        ("discarded", "hopeless")
    ]


async def test_a_job_that_is_not_held_is_not_released(desk: Desk) -> None:
    claim = await desk.put(start("a"), ScanRequested("discard", 1.0))
    victim, request = claim.jobs
    await desk.complete(claim, done(request, ReleaseJob(victim.id, "discarded", "hopeless")))
    assert await desk.store.read("select state from jobs where id = ?", (victim.id,)) == [("running",)]


async def test_an_event_that_cannot_be_read_is_held_and_stops_nobody_else(desk: Desk) -> None:
    claim = await desk.put(start("a"), start("b"))
    await desk.complete(claim, *(JobResult(job, "waiting") for job in claim.jobs))
    await desk.store.run([Statement("drop trigger events_are_facts", [()])], "t")
    await desk.store.run([Statement("update events set payload = '{}' where lane = 'a'", [()])], "t")
    assert [job.lane for job in await desk.queue.due(10)] == ["b"]
    assert await desk.jobs() == [("a", "held"), ("b", "waiting")]


# --- taking over


async def test_what_an_earlier_daemon_had_claimed_is_taken_back(desk: Desk) -> None:
    claim = await desk.put(start("a"), start("b"))
    async with open_desk(desk.path, desk.clock) as successor:
        assert successor.queue.tally.stolen == 2
        due = await successor.queue.due(10)
        assert [job.id for job in due] == [job.id for job in claim.jobs]
        newer = await successor.queue.put([], due)
        await successor.complete(newer, *(done(job, open_session(job.lane)) for job in newer.jobs))
        with pytest.raises(EpochRefused):
            await desk.complete(claim, *(done(job, open_session(job.lane)) for job in claim.jobs))
        with pytest.raises(EpochRefused):
            await desk.put(start("c"))
        assert await successor.keys() == ["a#1/started", "b#1/started"]
        assert desk.queue.tally.refused == []


# --- commits whose result is unknown


@pytest.mark.parametrize("unreadable", [0, 3])
@pytest.mark.parametrize("fate", ["done, but told to have failed", "not done"])
async def test_an_unknown_commit_of_a_put_is_found_out(
    desk: Desk, fate: Fate, unreadable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "PATIENCE", 0.0)
    desk.connection.commits, desk.connection.unreadable = [fate], unreadable
    if fate == "not done":
        with pytest.raises(StoreTrouble):
            await desk.put(start("a"))
        assert await desk.keys() == []
    claim = await desk.put(start("a"))
    assert [job.lane for job in claim.jobs] == ["a"]
    await desk.complete(claim)
    assert await desk.jobs() == [("a", "done")]
    assert desk.queue.uncertain is None


@pytest.mark.parametrize("fate", ["done, but told to have failed", "not done"])
async def test_an_unknown_commit_of_a_claim_is_found_out(desk: Desk, fate: Fate) -> None:
    first = await desk.put(start("a"))
    await desk.complete(first, JobResult(first.jobs[0], "waiting"))
    due = await desk.queue.due(10)
    desk.connection.commits = [fate]
    if fate == "not done":
        with pytest.raises(StoreTrouble):
            await desk.queue.put([], due)
        due = await desk.queue.due(10)
    claim = await desk.queue.put([], due)
    await desk.complete(claim)
    assert await desk.jobs() == [("a", "done")]


async def test_of_a_job_that_is_gone_nobody_says_that_it_was_completed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def packed_meanwhile(store: Store, numbers: Iterable[int]) -> dict[int, jobs.Standing]:
        # By a successor, who refuses what is tried again: nobody else may.
        return {}

    claim = await desk.put(start("a"))
    desk.connection.commits = ["not done"]
    monkeypatch.setattr(jobs, "standings", packed_meanwhile)
    with pytest.raises(StoreTrouble):
        await desk.complete(claim)


@pytest.mark.parametrize("unreadable", [0, 3])
@pytest.mark.parametrize("fate", ["done, but told to have failed", "not done"])
async def test_an_unknown_commit_of_a_completion_is_found_out(
    desk: Desk, fate: Fate, unreadable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "PATIENCE", 0.0)
    claim = await desk.put(start("a"), start("b"))
    desk.connection.commits, desk.connection.unreadable = [fate], unreadable
    outcomes = [done(job, open_session(job.lane)) for job in claim.jobs]
    if fate == "not done":
        with pytest.raises(StoreTrouble):
            await desk.complete(claim, *outcomes)
        assert await desk.store.read("select key from sessions") == []
    completed = await desk.complete(claim, *outcomes)
    assert [outcome.state for outcome in completed] == ["done", "done"]
    assert await desk.store.read("select key from sessions order by key") == [("a",), ("b",)]


async def test_the_next_events_follow_the_ones_whose_commit_was_unknown(desk: Desk) -> None:
    for number, fate in enumerate(
        ["done, but told to have failed", "not done", "done, but told to have failed"]
    ):
        desk.connection.commits = [fate]  # type: ignore[list-item] # one of the fates
        try:
            claim = await desk.put(start(f"l{number}"))
        except StoreTrouble:
            claim = await desk.put(start(f"l{number}"))
        await desk.complete(claim)
    assert await desk.store.read("select seq from events order by seq") == [(1,), (2,), (3,)]
    assert desk.queue.tally.refused == []


async def test_a_busy_store_is_trouble_and_nothing_is_lost(desk: Desk) -> None:
    await desk.store.read("pragma busy_timeout = 20")
    blocker = sqlite3.connect(desk.path, isolation_level=None)
    blocker.execute("begin immediate")
    with pytest.raises(StoreTrouble, match="locked"):
        await desk.put(start("a"))
    blocker.rollback()
    claim = await desk.put(start("a"))
    blocker.execute("begin immediate")
    with pytest.raises(StoreTrouble, match="locked"):
        await desk.complete(claim)
    blocker.rollback()
    blocker.close()
    await desk.complete(claim)
    assert await desk.jobs() == [("a", "done")]


# --- the background


def verdict(lane: str, produced: int = 1, size: int = 10) -> SessionFinished:
    return SessionFinished(lane, 1, 2.0, "completed", "run.completed.ok", "passed", produced, size)


async def hashing(desk: Desk, *long: str, are_long: bool = False) -> list[Job]:
    """What is due in the background, without the bundles that every verdict owes."""
    due = await desk.queue.due_in_background(20, long, are_long=are_long)
    return [job for job in due if job.handler == "contracts/hashes"]


async def background(desk: Desk, *long: str, are_long: bool = False) -> list[str]:
    return [job.lane for job in await hashing(desk, *long, are_long=are_long)]


async def test_work_in_the_background_is_never_claimed_by_a_turn(desk: Desk) -> None:
    claim = await desk.put(verdict("a"), start("a"))
    assert [job.lane for job in claim.jobs] == ["a"]
    await desk.complete(claim)
    assert await desk.queue.due(10) == []
    assert await desk.queue.next_due() is None, "and no turn waits for it"
    assert await background(desk) == ["files:a#1"]
    assert await desk.jobs() == [("files:a#1", "waiting"), ("a", "done")]


async def test_work_in_the_background_keeps_no_lane_of_a_session_back(desk: Desk) -> None:
    await desk.put(verdict("a"))
    assert [job.lane for job in (await desk.put(start("a"))).jobs] == ["a"]


async def test_a_verdict_without_files_leaves_no_work(desk: Desk) -> None:
    await desk.put(verdict("a", produced=0, size=0))
    assert await desk.jobs() == []


async def test_work_that_reads_too_much_is_left_to_others(desk: Desk) -> None:
    large = jobs.LARGE
    await desk.put(verdict("a", size=large), verdict("b", size=large + 1), verdict("c", size=large - 1))
    assert await background(desk) == ["files:a#1", "files:c#1"]
    assert await background(desk, are_long=True) == ["files:b#1"]
    assert await background(desk, "files:a#1", are_long=True) == ["files:a#1", "files:b#1"]


async def test_work_that_took_long_is_left_to_others_whatever_its_event_says(desk: Desk) -> None:
    await desk.put(verdict("a"), verdict("b"), verdict("c"))
    assert await background(desk, "files:b#1") == ["files:a#1", "files:c#1"]
    assert await background(desk, "files:b#1", are_long=True) == ["files:b#1"]


async def test_lanes_that_are_worked_on_take_no_place_among_those_that_are_due(desk: Desk) -> None:
    await desk.put(verdict("a"), verdict("b"))
    busy = [job.lane for job in await desk.queue.due_in_background(20) if "a#1" in job.lane]
    due = await desk.queue.due_in_background(1, without=busy)
    assert ["b#1" in job.lane for job in due] == [True]


async def test_work_in_the_background_is_claimed_and_completed_like_any_other(desk: Desk) -> None:
    await desk.put(verdict("a"))
    claim = await desk.queue.put((), await hashing(desk))
    assert await background(desk) == []
    await desk.complete(
        claim, JobResult(claim.jobs[0], "waiting", error="busy", run_after=desk.clock.now() + 5)
    )
    assert await background(desk) == []
    assert await desk.queue.next_due_in_background(desk.clock.now()) == desk.clock.now() + 5
    desk.clock.move(5)
    again = await desk.queue.put((), await hashing(desk))
    with pytest.raises(Fenced):
        await desk.complete(claim)
    await desk.complete(again)
    assert await desk.jobs() == [("files:a#1", "done")]


async def test_who_works_in_the_background_is_woken_when_there_is_something(desk: Desk) -> None:
    woken: list[int] = []
    desk.queue.wake_background = lambda: woken.append(1)
    claim = await desk.put(start("a"))
    await desk.complete(claim, done(claim.jobs[0], open_session("a")))
    assert woken == []
    claim = await desk.put(start("b"))
    await desk.complete(claim, done(claim.jobs[0], open_session("b"), Emit(verdict("b"))))
    assert woken == [1]


async def test_a_held_job_of_the_background_can_be_retried(desk: Desk) -> None:
    await desk.put(verdict("a"), verdict("b"))
    claim = await desk.queue.put((), (await hashing(desk))[:1])
    await desk.complete(claim, JobResult(claim.jobs[0], "held", error="a bug"))
    assert await background(desk) == ["files:b#1"]
    release = ReleaseJob(claim.jobs[0].id, "waiting", "asked for")
    asked = await desk.put(ScanRequested("r", 1.0))
    await desk.complete(asked, done(asked.jobs[0], release))
    assert await background(desk) == ["files:a#1", "files:b#1"]


async def test_turns_and_the_background_do_not_get_into_each_others_numbers(desk: Desk) -> None:
    """Events are numbered in memory, so a put and a completion at the same time wait for each other."""
    await desk.put(*(verdict(f"a{number}") for number in range(5)))
    claims = [await desk.queue.put((), [job]) for job in await hashing(desk)]
    async with anyio.create_task_group() as tasks:
        for number, claim in enumerate(claims):
            tasks.start_soon(desk.complete, claim, done(claim.jobs[0], Emit(verdict(f"b{number}"))))
            tasks.start_soon(desk.put, start(f"c{number}"))
    keys = await desk.keys()
    assert len(keys) == len(set(keys)) == 15
    assert desk.queue.tally.halved == 0
    assert desk.queue.tally.refused == []
