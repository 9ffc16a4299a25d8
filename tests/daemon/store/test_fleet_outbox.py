"""What is owed to a fleet: every change, in its own transaction, once, and nothing while there is no fleet."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.tables.fleet_outbox import (
    Owed,
    delivered,
    how_many_owed,
    owed,
    still_there,
    switch_off,
    switch_on,
    walk,
)
from runward.daemon.store.transaction import Row, Statement

INSERT = (
    "insert into sessions (key, session_id, layout, root, path, kind, status, attempt, origin, started_at, reason_code,"
    " reason_summary, evidence_refs, artifacts_path)"
    " values (?1, ?1, 'native', 'runs', '/r', 'run', 'running', 1, 'live', 1.0, 'c', 's', '[]', '/a')"
)
CURSOR = (
    "insert into cursors (key, root, directory, session_key, phase, state, activity)"
    " values (?1, 'r', 'd', ?2, 'open', ?3, ?4) on conflict (key) do update set state = excluded.state,"
    " activity = excluded.activity"
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    migrate(tmp_path / "runward.db")
    opened = await _opened(tmp_path)
    yield opened
    await opened.close()


async def _opened(directory: Path) -> Store:
    opened = Store(await connect(directory / "runward.db"))
    await opened.take_over()
    return opened


async def _owed(store: Store) -> list[Row]:
    return await store.read("select kind, subject from fleet_outbox order by version")


async def _do(store: Store, sql: str, *rows: Row) -> None:
    await store.run([Statement(sql, rows or ((),))], "t")


async def _walked(store: Store, most: int = 100) -> int:
    steps = 1
    while await walk(store, most):
        steps += 1
    return steps


async def test_without_a_fleet_nothing_is_owed(store: Store) -> None:
    await _do(store, INSERT, ("a",))
    assert await _owed(store) == []


async def test_each_change_of_a_session_is_owed_once_and_anew(store: Store) -> None:
    await switch_on(store, "here")
    await _do(store, INSERT, ("a",), ("b",))
    assert await _owed(store) == [("session", "a"), ("session", "b")]
    ((first,),) = await store.read("select max(version) from fleet_outbox")
    await _do(store, "update sessions set status = 'failed' where key = 'a'")
    assert await store.read("select subject, version > ? from fleet_outbox order by version", (first,)) == [
        ("b", 0),
        ("a", 1),
    ]


async def test_a_session_is_owed_again_once_its_files_are_hashed(store: Store) -> None:
    await _do(store, INSERT, ("a",))
    attempt = (
        "insert into attempts (session_key, attempt, started_at, status) values ('a', 1, 1.0, 'running')"
    )
    await _do(store, attempt)
    await switch_on(store, "here")
    await _do(
        store,
        "insert into files (session_key, attempt, id, path, size, modified_ns, sha256, problem, hashed_at)"
        " values ('a', 1, ?, 'p', 1, 1, ?, null, 1.0)",
        ("one", "ab" * 32),
        ("two", "cd" * 32),
    )
    assert await _owed(store) == [("session", "a")]


async def test_a_session_that_is_deleted_is_owed(store: Store) -> None:
    await _do(store, INSERT, ("a",))
    await switch_on(store, "here")
    await _do(store, "delete from sessions where key = 'a'")
    assert await _owed(store) == [("session", "a")]


async def test_a_statement_with_a_conflict_clause_of_its_own_owes_no_less(store: Store) -> None:
    await switch_on(store, "here")
    await _do(store, INSERT, ("a",))
    await delivered(store, [1])
    await _do(store, INSERT.replace("insert into", "insert or ignore into"), ("b",))
    await _do(store, "update or ignore sessions set status = 'failed'")
    await _do(store, "update or ignore sessions set status = 'completed'")
    assert await store.read("select subject, version from fleet_outbox order by version") == [
        ("a", 5),
        ("b", 6),
    ]


async def test_packing_owes_nothing(store: Store) -> None:
    await _do(store, INSERT, ("a",))
    await switch_on(store, "here")
    await _do(
        store, "update sessions set packed = 1, evidence_refs = '[]', artifact_verification_json = null"
    )
    assert await _owed(store) == []


async def test_what_an_agent_does_is_owed_but_not_each_of_its_replies(store: Store) -> None:
    await switch_on(store, "here")
    await _do(store, CURSOR, ("codex:1", "codex:1", "first", "active"))
    await _do(store, CURSOR, ("codex:1", "codex:1", "second", "active"))
    assert await _owed(store) == []
    await _do(store, CURSOR, ("codex:1", "codex:1", "third", "idle"))
    assert await _owed(store) == [("session", "codex:1")]


async def test_whether_a_launched_run_has_a_process_is_owed(store: Store) -> None:
    await switch_on(store, "here")
    await _do(store, CURSOR, ("runs/1", "native:runs/1", "first", None))
    await _do(store, CURSOR, ("runs/1", "native:runs/1", "second", None))
    assert await _owed(store) == [("session", "native:runs/1")]


async def test_an_undone_transaction_owes_nothing(store: Store) -> None:
    await switch_on(store, "here")
    with pytest.raises(sqlite3.IntegrityError):
        await store.run([Statement(INSERT, [("a",)]), Statement(INSERT, [("a",)])], "t")
    assert await _owed(store) == []


async def test_what_changed_since_it_was_delivered_stays_owed(store: Store, tmp_path: Path) -> None:
    await switch_on(store, "here")
    await _do(store, INSERT, ("a",), ("b",))
    with closing(sqlite3.connect(tmp_path / "runward.db")) as reader:
        sent = owed(reader, "session", 0, 10)
    await _do(store, "update sessions set status = 'failed' where key = 'a'")
    await delivered(store, [each.version for each in sent])
    with closing(sqlite3.connect(tmp_path / "runward.db")) as reader:
        assert owed(reader, "session", 0, 10) == [Owed(3, "session", "a")]
        assert owed(reader, "session", 3, 10) == []
        assert how_many_owed(reader) == 1
        assert still_there(reader, [2, 3, 4]) == {3}


async def test_versions_grow_even_if_all_was_delivered(store: Store) -> None:
    await switch_on(store, "here")
    await _do(store, INSERT, ("a",))
    await delivered(store, [1])
    await _do(store, "update sessions set status = 'failed'")
    assert await store.read("select version from fleet_outbox") == [(2,)]


async def test_what_was_recorded_before_is_owed_in_slices(store: Store) -> None:
    keys = [f"{number:02}" for number in range(10)]
    await _do(store, INSERT, *((key,) for key in keys))
    await switch_on(store, "here")
    assert await _owed(store) == []
    assert await _walked(store, 4) == 4
    assert await _owed(store) == [("session", key) for key in keys]


async def test_a_session_that_is_owed_already_is_not_owed_anew_by_the_walk(store: Store) -> None:
    await _do(store, INSERT, ("a",))
    await switch_on(store, "here")
    await _do(store, "update sessions set status = 'failed'")
    await _walked(store)
    assert await store.read("select version from fleet_outbox") == [(1,)]


async def _successor(store: Store, directory: Path, reported_as: str | None) -> Store:
    """The next daemon; with None, it has no fleet."""
    await store.close()
    opened = await _opened(directory)
    if reported_as is not None:
        await switch_on(opened, reported_as)
    return opened


@pytest.mark.parametrize(
    ("daemons", "is_all_owed"),
    [
        (("here",), False),
        (("here", "here"), False),
        ((None, "here"), True),
        (("elsewhere",), True),
        (("elsewhere", "here"), True),
    ],
)
async def test_all_is_owed_again_after_a_daemon_that_noted_nothing_or_reported_elsewhere(
    store: Store, tmp_path: Path, daemons: tuple[str | None, ...], is_all_owed: bool
) -> None:
    await _do(store, INSERT, ("a",))
    await switch_on(store, "here")
    await _walked(store)
    await delivered(store, [1])
    for reported_as in daemons:
        store = await _successor(store, tmp_path, reported_as)
    await _walked(store)
    found = await _owed(store)
    await store.close()
    assert found == ([("session", "a")] if is_all_owed else [])


async def test_a_walk_that_was_interrupted_goes_on(store: Store, tmp_path: Path) -> None:
    await _do(store, INSERT, *((key,) for key in "abcd"))
    await switch_on(store, "here")
    await walk(store, 2)
    store = await _successor(store, tmp_path, "here")
    assert await walk(store, 10)
    assert not await walk(store, 10)
    found = await _owed(store)
    await store.close()
    assert found == [("session", key) for key in "abcd"]


async def test_without_a_fleet_from_now_on_nothing_more_is_owed_and_later_everything(store: Store) -> None:
    await switch_on(store, "here")
    await _walked(store)
    await switch_off(store)
    await _do(store, INSERT, ("a",))
    assert await _owed(store) == []
    await switch_on(store, "here")
    await _walked(store)
    assert await _owed(store) == [("session", "a")]


async def test_the_triggers_are_no_part_of_the_store(store: Store, tmp_path: Path) -> None:
    await switch_on(store, "here")
    with closing(sqlite3.connect(tmp_path / "runward.db", isolation_level=None)) as other:
        other.execute(INSERT, ("a",))
    assert await _owed(store) == []


PLACE = (
    "insert into remote_steps (id, run, step, attempt, host, skill, body, placed_at, wanted)"
    " values (?, 'cr_1', 0, 1, 'gpu-box', 'train', '{}', 1, 'placed')"
)
BEGIN = (
    "insert into orders_taken (origin, id, take, state, session_key, taken_at)"
    " values ('laptop', ?1, 1, 'begun', 'native:runs/' || ?1, 1)"
)
DECLINE = "insert into orders_taken (origin, id, take, state, why, taken_at) values ('laptop', ?, 1, 'declined', 'no', 1)"
END = "update orders_taken set state = 'ended', result = '{}' where id = ?"


async def test_an_order_is_owed_when_it_is_placed_and_when_more_is_wanted_of_it(store: Store) -> None:
    await switch_on(store, "here")
    await _do(store, PLACE, ("o",))
    assert await _owed(store) == [("order", "o")]
    await _deliver_all(store)
    await _do(store, "update remote_steps set wanted = 'cancelled' where id = ?", ("o",))
    assert await _owed(store) == [("order", "o")]


async def test_an_order_is_forgotten_once_the_fleet_knows_that_it_is_settled_and_no_sooner(
    store: Store,
) -> None:
    await switch_on(store, "here")
    await _do(store, PLACE, ("o",), ("p",))
    await _deliver_all(store)
    await _do(store, "update remote_steps set wanted = 'settled' where id = ?", ("o",))
    assert await store.read("select id from remote_steps order by id") == [("o",), ("p",)]
    await _deliver_all(store)
    assert await store.read("select id from remote_steps") == [("p",)]


async def test_of_an_order_that_this_host_took_is_owed_that_it_begins_its_end_and_that_it_declined_it(
    store: Store,
) -> None:
    await switch_on(store, "here")
    await _do(store, BEGIN, ("a",))
    assert await _owed(store) == [("taken", '["laptop","a",1]')]
    await _deliver_all(store)
    assert await _owed(store) == []
    await _do(store, END, ("a",))
    await _do(store, DECLINE, ("b",))
    assert await _owed(store) == [("taken", '["laptop","a",1]'), ("taken", '["laptop","b",1]')]
    await _deliver_all(store)
    # The one tells whether its session was wanted, as long as there is one.
    assert await store.read("select id from orders_taken") == [("a",)]


async def test_what_was_decided_on_orders_while_nobody_noted_it_is_owed_later(store: Store) -> None:
    await _do(store, PLACE, ("o",))
    await _do(store, BEGIN, ("a",), ("b",))
    await _do(store, END, ("a",))
    await switch_on(store, "here")
    assert await _owed(store) == [
        ("order", "o"),
        ("taken", '["laptop","a",1]'),
        ("taken", '["laptop","b",1]'),
    ]
    await _deliver_all(store)
    await walk(store, 10)
    await switch_on(store, "here")
    assert await _owed(store) == []


async def _deliver_all(store: Store) -> None:
    rows = await store.read("select version from fleet_outbox")
    await delivered(store, [int(str(version)) for (version,) in rows])


RECEIPT = (
    "insert into receipts (seq, session_key, attempt, receipt_hash, directory, parts, facts, problem, recorded_at)"
    " values (?, 'a', ?1, ?, 'd', '[]', '{}', ?, 1.0)"
)


async def test_each_receipt_is_owed_and_an_attempt_without_one_is_not(store: Store) -> None:
    await switch_on(store, "here")
    await _do(store, RECEIPT, (1, None, "none"))
    await _do(store, RECEIPT, (2, "sha256:b", None))
    assert await _owed(store) == [("receipt", "2")]


OUTCOME = (
    "insert into artifacts (id, session_key, kind, name, is_known, place, created_at, updated_at)"
    " values (?, 'a', 'note', ?1, 1, 0, 1.0, 1.0) on conflict (id) do update set summary = 'again'"
)


async def test_each_change_of_an_outcome_is_owed(store: Store) -> None:
    await _do(store, INSERT, ("a",))
    await switch_on(store, "here")
    await _do(store, OUTCOME, ("one",), ("two",))
    await _do(store, OUTCOME, ("one",))
    assert await _owed(store) == [("outcome", "two"), ("outcome", "one")]
    await _do(store, "delete from artifacts where id = 'two'")
    assert await _owed(store) == [("outcome", "one"), ("outcome", "two")]


async def test_outcomes_from_before_are_owed_in_the_slices_of_their_sessions(store: Store) -> None:
    await _do(store, INSERT, ("a",), ("b",), ("c",))
    await _do(store, OUTCOME, ("one",), ("two",))
    await switch_on(store, "here")
    assert await _walked(store, 1) == 4
    assert await _owed(store) == [
        ("session", "a"),
        ("outcome", "one"),
        ("outcome", "two"),
        ("session", "b"),
        ("session", "c"),
    ]


RUN = (
    "insert into chain_runs (id, chain, event, fired_by, definition, trigger_event, status, reason_code, reason_summary,"
    " current_step, created_at, updated_at) values (?, ?1, 0, '', '{}', '', ?, '', '', 0, 1.0, 1.0)"
)
ASK = "insert into approvals (id, run, step, asked_at, shown, shown_hash, status) values (?, ?, 0, 1.0, '{}', 'h', 'asked')"


async def test_an_approval_is_owed_when_it_begins_and_stops_waiting(store: Store) -> None:
    await _do(store, RUN, ("r", "running"), ("s", "running"))
    await switch_on(store, "here")

    async def owed_since() -> list[Row]:
        rows = await _owed(store)
        await _do(store, "delete from fleet_outbox")
        return rows

    await _do(store, ASK, ("one", "r"), ("two", "s"))
    assert await owed_since() == [("approval", "one"), ("approval", "two")]
    await _do(store, "update chain_runs set status = 'waiting_approval' where id = 'r'")
    assert await owed_since() == [("approval", "one")]
    await _do(store, "update chain_runs set status = 'waiting_approval' where id = 'r'")
    assert await owed_since() == []
    await _do(store, "update chain_runs set status = 'cancelled' where id = 'r'")
    assert await owed_since() == [("approval", "one")]
    await _do(store, "update approvals set status = 'denied' where id = 'two'")
    assert await owed_since() == [("approval", "two")]
    await _do(store, "update chain_runs set status = 'waiting_approval' where id = 's'")
    assert await owed_since() == [], "what is decided"


async def test_approvals_from_before_are_owed(store: Store) -> None:
    await _do(store, RUN, ("r", "waiting_approval"))
    await _do(store, ASK, ("one", "r"), ("two", "r"))
    await _do(store, "update approvals set status = 'denied' where id = 'two'")
    await switch_on(store, "here")
    assert await _owed(store) == [("approval", "one")]
