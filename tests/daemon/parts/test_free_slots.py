"""Slots that are free when a daemon starts: offered to the steps that wait, each once until its chain run has decided."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.daemon.in_process import SILENT

from runward.daemon.parts.runs import FreeSlots
from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.tables.chain_runs import OF_A_JOB, slots
from runward.daemon.world.clock import SystemClock
from runward.handlers.model.chains import WAITS_FOR_SLOT, SlotOffered

EVENT = (
    "insert into events (seq, key, type, version, lane, at, recorded_at, depth, payload, hash)"
    " values (1, 'k', 'ChainFired', 1, 'chain:c', 1.0, 1.0, 0, '{}', ?)"
)
RUN = (
    "insert into chain_runs (id, chain, event, fired_by, definition, trigger_event, status, reason_code, reason_summary,"
    " current_step, created_at, updated_at, said_by, depth) values (?1, 'c', 1, ?1, '{}', '{}', 'running',"
    " 'chain.running.started', '', 0, ?2, ?2, '', 1)"
)
STEP = "insert into chain_steps (run, step, attempt, status, reason_code, started_at) values (?, 0, 1, 'waiting', ?, 1.0)"
OFFER = (
    "insert into jobs (id, event, handler, lane, state, epoch, updated_at, run_after)"
    " values (33, 1, 'chains/offered', 'cr_a', ?, 1, 1.0, 0.0)"
)


async def offers(path: Path, state: str) -> list[str]:
    """The chain runs that a starting daemon offers its slots to: two wait, and the first has an offer in this state."""
    migrate(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(EVENT, ("0" * 64,))
        for at, run in enumerate(("cr_a", "cr_b")):
            connection.execute(RUN, (run, float(at)))
            connection.execute(STEP, (run, WAITS_FOR_SLOT))
        connection.execute(OFFER, (state,))
    told: list[SlotOffered] = []
    store = Store(await connect(path))
    try:
        part = FreeSlots(store, SystemClock(), SILENT, lambda: 2, told.append)
        assert await part.carry_out()
        assert not await part.carry_out(), "once is enough"
    finally:
        await store.close()
    return [each.run for each in told]


async def test_no_more_of_the_steps_that_wait_are_read_than_jobs_can_come_to(tmp_path: Path) -> None:
    path, runs = tmp_path / "runward.db", [f"cr_{number:02}" for number in range(40)]
    migrate(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(EVENT, ("0" * 64,))
        for number, run in enumerate(runs):
            connection.execute(RUN, (run, 40.0 - number))  # the last of them was fired first
            connection.execute(STEP, (run, WAITS_FOR_SLOT))
        connection.execute(
            "update chain_steps set status = 'running', reason_code = null where run < 'cr_03'"
        )
    store = Store(await connect(path))
    try:
        full, free = await slots(store, 3, jobs=2), await slots(store, 5, jobs=2)
        offered = await slots(store, 5)
    finally:
        await store.close()
    in_order = runs[:2:-1]
    assert full.running == free.running == {(run, 0) for run in runs[:3]}
    assert [each.run for each in full.waiters] == in_order[: 2 * OF_A_JOB]
    assert [each.run for each in free.waiters] == in_order[: 2 * OF_A_JOB + 2]
    assert [each.run for each in offered.waiters] == in_order[:2]


async def test_a_free_slot_is_offered_to_each_step_that_waits(tmp_path: Path) -> None:
    assert await offers(tmp_path / "runward.db", "done") == ["cr_a", "cr_b"]


async def test_an_offer_that_is_not_decided_is_not_made_again(tmp_path: Path) -> None:
    for number, state in enumerate(("waiting", "held")):
        assert await offers(tmp_path / f"{number}.db", state) == ["cr_b"]
