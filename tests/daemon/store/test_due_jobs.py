"""What may run now is what a look at all jobs says, and it costs the same however many jobs wait."""

import json
import math
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.daemon.store.in_memory import InMemory, asked

from runward.daemon.store.due_jobs import due_in_background, due_jobs, next_due, next_due_in_background
from runward.daemon.store.schema import make_empty
from runward.daemon.store.tables.jobs import TAKE_BACK
from runward.daemon.store.transaction import Reader

NOW: Final = 100.0
ENDLESS: Final = 10**6
TIMES: Final = (0.0, -3.0, 50.0, 99.0, NOW, 101.0, 500.0, math.inf)
OPEN: Final = ("waiting", "held")
STATES: Final = ("waiting", "running", "done", "held", "discarded")
LANES: Final = (
    "a",
    "b",
    "timer:x",
    "timer:schedule:c",
    "timer:schedule:d",
    "files:a#1",
    "files:b#1",
    "files:c",
)

INSERT: Final = (
    "insert into jobs (id, event, handler, lane, state, epoch, updated_at, run_after, is_large)"
    " values (?1, ?1 / 32, 'h', ?2, ?3, 1, 1.0, ?4, ?5)"
)
EVENT: Final = (
    "insert into events (seq, key, type, version, lane, at, recorded_at, payload, hash)"
    " values (?1, ?1, 'ScanRequested', 1, 'a', 1.0, 1.0, ?2, '')"
)
PAYLOAD: Final = '{"request": "r", "at": 1.0}'

# --- what a look at all jobs says

MODEL: Final = (
    "select j.id from jobs j where j.state = 'waiting' and j.run_after <= :now and {which} and not exists ("
    " select 1 from jobs b where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held')"
    " and {blocks}) order by j.id"
)
FOREGROUND: Final = MODEL.format(
    which="j.lane not glob 'files:*' and (j.run_after <= :horizon or j.lane not glob 'timer:schedule:*')",
    blocks="(b.state = 'held' or b.run_after > :now or b.lane glob 'timer:schedule:*' and b.run_after > :horizon)",
)
BACKGROUND: Final = MODEL.format(
    which="j.lane glob 'files:*' and j.lane not in (select value from json_each(:without))"
    " and (j.is_large or j.lane in (select value from json_each(:long))) = :are_long",
    blocks="true",
)
NEXT: Final = (
    "select min(j.run_after) from jobs j where j.state = 'waiting' and {which} and not exists ("
    " select 1 from jobs b where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held'))"
)
NEXT_IN_FOREGROUND: Final = NEXT.format(
    which="j.lane not glob 'files:*' and (j.run_after <= :horizon or j.lane not glob 'timer:schedule:*')"
)
NEXT_IN_BACKGROUND: Final = NEXT.format(which="j.lane glob 'files:*' and j.run_after > :now")

HEADS: Final = (
    "select id from jobs j where is_head <> (state in ('waiting', 'held') and not exists (select 1 from jobs b"
    " where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held')))"
)
"""Jobs whose mark is wrong."""


class Given(NamedTuple):
    """A job as it is put, and whether it takes long."""

    lane: str
    state: str
    run_after: float
    is_large: bool


class Change(NamedTuple):
    """What happens to a job later: a state and a time; or it is deleted."""

    job: int
    state: str | None
    run_after: float


JOBS: Final = st.lists(
    st.builds(Given, st.sampled_from(LANES), st.sampled_from(STATES), st.sampled_from(TIMES), st.booleans()),
    min_size=1,
    max_size=14,
)
CHANGES: Final = st.lists(
    st.builds(
        Change, st.integers(0, 13), st.sampled_from((*STATES, None)), st.sampled_from(TIMES)
    ),
    max_size=14,
)  # fmt: skip


def fill(database: sqlite3.Connection, jobs: Iterable[Given], first: int = 1) -> None:
    """Put these jobs, each with an event of its own."""
    numbered = list(enumerate(jobs, first))
    database.executemany(EVENT, [(number, PAYLOAD) for number, _ in numbered])
    database.executemany(INSERT, [(number * 32, *job) for number, job in numbered])


def numbers(rows: Iterable[tuple[int]]) -> list[int]:
    return [number for (number,) in rows]


EMPTY: Final = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
make_empty(EMPTY)


@pytest.mark.parametrize("turned", [False, True], ids=["put in order", "put from the last on"])
@given(
    jobs=JOBS,
    changes=CHANGES,
    horizon=st.sampled_from((60.0, math.inf)),
    long=st.sets(st.sampled_from(LANES[-3:])),
    without=st.sets(st.sampled_from(LANES[-3:])),
    limit=st.integers(1, 5),
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_may_run_is_what_a_look_at_all_jobs_says(
    turned: bool,
    jobs: list[Given],
    changes: list[Change],
    horizon: float,
    long: set[str],
    without: set[str],
    limit: int,
) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        EMPTY.backup(database)
        if turned:
            for number, job in reversed(list(enumerate(jobs, 1))):
                fill(database, [job], number)
        else:
            fill(database, jobs)
        for place, state, run_after in changes:
            number = (place % len(jobs) + 1) * 32
            if state is None:
                database.execute("delete from jobs where id = ?", (number,))
            else:
                database.execute(
                    "update jobs set state = ?, run_after = ? where id = ?", (state, run_after, number)
                )
        assert database.execute(HEADS).fetchall() == []
        compare(InMemory(database), database, horizon, long, without, limit)


def compare(
    store: Reader,
    database: sqlite3.Connection,
    horizon: float,
    long: set[str],
    without: set[str],
    limit: int,
) -> None:
    """Hold each question against a look at all jobs."""
    values = {"now": NOW, "horizon": horizon, "long": json.dumps(sorted(long))}
    values["without"] = json.dumps(sorted(without))

    def model(sql: str, **more: object) -> list[Any]:
        return numbers(database.execute(sql, {**values, **more}).fetchall())

    async def due(limit: int) -> list[int]:
        return [job.id for job in (await due_jobs(store, NOW, limit, horizon)).jobs]

    async def behind(are_long: bool, limit: int) -> list[int]:
        found = await due_in_background(store, NOW, limit, long, without, are_long=are_long)
        return [job.id for job in found.jobs]

    async def compared() -> None:
        may_run = model(FOREGROUND)
        assert await due(ENDLESS) == may_run
        # With a limit, the ones that come first; of heads that became due, those that did so first.
        some = await due(limit)
        assert len(some) == min(limit, len(may_run))
        assert set(some) <= set(may_run)
        for are_long in (False, True):
            expected = model(BACKGROUND, are_long=are_long)
            assert await behind(are_long, ENDLESS) == expected
            assert len(await behind(are_long, limit)) == min(limit, len(expected))
        assert [await next_due(store, horizon)] == model(NEXT_IN_FOREGROUND)
        assert [await next_due_in_background(store, NOW)] == model(NEXT_IN_BACKGROUND)

    asked(compared())


# --- what it costs

LIMIT: Final = 256
READY: Final = [Given(f"ready {number}", "waiting", 0.0, False) for number in range(LIMIT)]
READY_IN_BACKGROUND: Final = [
    Given(f"files:ready {number}", "waiting", 0.0, is_large)
    for number in range(64)
    for is_large in (False, True)
]


def rows(
    lane: str, state: str = "waiting", run_after: float = 0.0, is_large: bool = False
) -> Callable[[int], Given]:
    """Jobs of which each differs by its number, where the lane says so."""
    return lambda number: Given(lane.format(number), state, run_after, is_large)


WAITING: Final[dict[str, Callable[[int], Given]]] = {
    "due in the background": rows("files:{}"),
    "large in the background": rows("files:{}", is_large=True),
    "delayed in the background": rows("files:{}", run_after=NOW + 5.0),
    "held in the background": rows("files:{}", "held"),
    "due in one lane of the background": rows("files:one"),
    "due, each in a lane": rows("lane {}"),
    "due in one lane": rows("one"),
    "delayed for a while, each in a lane": rows("lane {}", run_after=NOW - 5.0),
    "delayed, each in a lane": rows("lane {}", run_after=NOW + 5.0),
    "delayed in one lane": rows("one", run_after=NOW + 5.0),
    "held, each in a lane": rows("lane {}", "held"),
    "held in one lane": rows("one", "held"),
    "due behind a held one": lambda number: Given("one", "waiting" if number else "held", 0.0, False),
    "due behind a delayed one": lambda number: Given("one", "waiting", 0.0 if number else NOW + 5.0, False),
    "timers": rows("timer:{}", run_after=NOW + 5.0),
    "schedules": rows("timer:schedule:{}", run_after=NOW + 5.0),
    "done": rows("lane {}", "done"),
}
QUESTIONS: Final[dict[str, Callable[[Reader], Coroutine[Any, Any, object]]]] = {
    "due": lambda store: due_jobs(store, NOW, LIMIT),
    "due before a horizon": lambda store: due_jobs(store, NOW, LIMIT, NOW - 50.0),
    "due in the background": lambda store: due_in_background(store, NOW, 64, (), (), are_long=False),
    "long in the background": lambda store: due_in_background(store, NOW, 1, (), (), are_long=True),
    "next": lambda store: next_due(store),
    "next before a horizon": lambda store: next_due(store, NOW - 50.0),
    "next in the background": lambda store: next_due_in_background(store, NOW),
}


def cost(database: sqlite3.Connection, ask: Callable[[Reader], Coroutine[Any, Any, object]]) -> int:
    """How many steps of SQLite the answer to this question takes."""
    return steps_of(database, lambda: asked(ask(InMemory(database))))


def steps_of(database: sqlite3.Connection, work: Callable[[], object]) -> int:
    """How many steps of SQLite this takes: a figure that no other program on this machine changes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    database.set_progress_handler(count, 1)
    try:
        work()
    finally:
        database.set_progress_handler(None, 1)
    return steps


@contextmanager
def full(jobs: Iterable[Given]) -> Iterator[sqlite3.Connection]:
    """A store in which as many jobs are due as a turn takes, and these wait."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        EMPTY.backup(database)
        database.execute("begin")
        fill(database, [*READY, *READY_IN_BACKGROUND, *jobs])
        database.execute("commit")
        yield database


@pytest.mark.parametrize("waiting", WAITING)
def test_a_question_costs_the_same_however_many_jobs_wait(waiting: str) -> None:
    costs: list[dict[str, int]] = []
    for count in (LIMIT, 10 * LIMIT):
        with full(map(WAITING[waiting], range(count))) as database:
            costs.append({name: cost(database, ask) for name, ask in QUESTIONS.items()})
    few, many = costs
    assert {name for name in QUESTIONS if many[name] > 1.1 * few[name]} == set()


def test_a_head_moves_on_at_the_same_cost_however_many_jobs_wait_behind_it() -> None:
    costs = []
    for count in (2, 2_000):
        with full(map(WAITING["due in one lane"], range(count))) as database:
            (first,) = database.execute("select min(id) from jobs where lane = 'one'").fetchone()
            claim = "update jobs set state = 'running' where id = ?"
            costs.append(steps_of(database, lambda: database.execute(claim, (first,))))  # noqa: B023 # called at once
            assert database.execute(HEADS).fetchall() == []
    assert costs[1] <= 1.1 * costs[0]


def test_jobs_that_a_successor_takes_back_are_heads_again() -> None:
    with full([Given("one", "running", 0.0, False), Given("one", "waiting", 0.0, False)]) as database:
        database.execute(TAKE_BACK, (2, 1.0, 2))
        assert database.execute(HEADS).fetchall() == []
