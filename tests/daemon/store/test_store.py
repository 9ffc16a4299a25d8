"""The one door: transactions that are data, with exact guards, an epoch, and no half of anything."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import anyio
import pytest
from tests.daemon.store.uncertain import Uncertain

from runward.daemon.store.connection import connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import CommitUnknown, EpochRefused, Fenced, Reader, Row, Statement

INSERT = "insert into problems (path, message, since) values (?, ?, ?)"
FIX = "update problems set mend = ? where path = ?"


def problem(path: str) -> Row:
    return path, "is wrong", 1.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    migrate(tmp_path / "runward.db")
    opened = Store(await connect(tmp_path / "runward.db"))
    await opened.take_over()
    yield opened
    await opened.close()


async def paths(store: Store) -> list[object]:
    return [row[0] for row in await store.read("select path from problems order by path")]


async def test_a_transaction_is_carried_out_whole(store: Store) -> None:
    await store.run(
        [Statement(INSERT, [problem("a"), problem("b")], exact=True), Statement(FIX, [("m", "a")])], "t"
    )
    assert await store.read("select path, mend from problems order by path") == [("a", "m"), ("b", None)]


@pytest.mark.parametrize("rows", [[("m", "no such path")], [("m", "a"), ("m", "no such path")]])
async def test_an_exact_statement_that_touches_fewer_rows_fences_the_whole(
    store: Store, rows: list[Row]
) -> None:
    await store.run([Statement(INSERT, [problem("a")])], "t")
    with pytest.raises(Fenced, match=f"{len(rows) - 1} of {len(rows)} rows"):
        await store.run([Statement(INSERT, [problem("b")]), Statement(FIX, rows, exact=True)], "t")
    assert await store.read("select path, mend from problems") == [("a", None)]
    assert store.fences_refused == 1


async def test_an_exact_statement_that_touches_more_rows_fences_the_whole(store: Store) -> None:
    await store.run([Statement(INSERT, [problem("a"), problem("a")])], "t")
    with pytest.raises(Fenced, match="2 of 1 rows"):
        await store.run([Statement(FIX, [("m", "a")], exact=True)], "t")
    assert await store.read("select mend from problems") == [(None,), (None,)]


async def test_a_statement_that_is_not_exact_may_touch_nothing(store: Store) -> None:
    await store.run([Statement(FIX, [("m", "no such path")])], "t")
    assert store.fences_refused == 0


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_nothing_is_committed_when_one_statement_fails(store: Store, place: int) -> None:
    statements = [Statement(INSERT, [problem("a")]), Statement(INSERT, [problem("b")])]
    statements.insert(place, Statement(INSERT, [problem("c"), ("c", None, 1.0)]))
    with pytest.raises(sqlite3.IntegrityError):
        await store.run(statements, "t")
    assert await paths(store) == []
    await store.run([Statement(INSERT, [problem("d")])], "t")
    assert await paths(store) == ["d"]


async def test_several_queries_are_one_piece_of_work_in_the_stores_thread(store: Store) -> None:
    await store.run([Statement(INSERT, [problem("a"), problem("b")])], "t")
    threads: list[int] = []

    async def ask(reader: Reader) -> tuple[list[Row], list[Row]]:
        threads.append(threading.get_ident())
        first = await reader.read("select path from problems where path = ?", ("a",))
        return first, await reader.read("select count(*) from problems")

    assert await store.consult(ask) == ([("a",)], [(2,)])
    assert threads != [threading.get_ident()]
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await store.consult(lambda reader: reader.read("select 1 from nowhere"))
    with pytest.raises(RuntimeError, match="waits for something"):
        await store.consult(lambda reader: asyncio.sleep(0))


async def test_a_daemon_whose_epoch_passed_writes_nothing(store: Store, tmp_path: Path) -> None:
    successor = Store(await connect(tmp_path / "runward.db"))
    assert await successor.take_over() == store.epoch + 1
    with pytest.raises(EpochRefused):
        await store.run([Statement(INSERT, [problem("late")])], "t")
    await successor.run([Statement(INSERT, [problem("in time")])], "t")
    assert await paths(successor) == ["in time"]
    assert (store.fences_refused, successor.fences_refused) == (1, 0)
    await successor.close()


async def test_the_epoch_is_refused_before_any_guard(store: Store, tmp_path: Path) -> None:
    successor = Store(await connect(tmp_path / "runward.db"))
    await successor.take_over()
    with pytest.raises(EpochRefused):
        await store.run([Statement(FIX, [("m", "no such path")], exact=True)], "t")
    await successor.close()


async def test_a_busy_store_is_the_worlds_trouble_and_leaves_no_transaction_open(
    store: Store, tmp_path: Path
) -> None:
    await store.read("pragma busy_timeout = 50")
    other = sqlite3.connect(tmp_path / "runward.db", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await store.run([Statement(INSERT, [problem("a")])], "t")
    other.execute("rollback")
    other.execute("begin immediate")
    other.execute("rollback")
    other.close()
    await store.run([Statement(INSERT, [problem("b")])], "t")
    assert await paths(store) == ["b"]


async def test_a_cancelled_transaction_is_carried_out_whole_or_was_never_begun(store: Store) -> None:
    for number in range(50):
        rows = [problem(f"{number:02}a"), problem(f"{number:02}b")]
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.run, [Statement(INSERT, rows[:1]), Statement(INSERT, rows[1:])], "t")
                for _ in range(number % 5):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
    found = [str(path) for path in await paths(store)]
    assert {path[:2] for path in found if path.endswith("a")} == {
        path[:2] for path in found if path.endswith("b")
    }
    await store.run([Statement(INSERT, [problem("after")])], "t")
    assert "after" in await paths(store)


async def test_transactions_of_several_tasks_do_not_mix(store: Store) -> None:
    async def write(number: int) -> None:
        try:
            wrong: Row = (f"{number}", None if number % 3 == 0 else "is wrong", 1.0)
            await store.run([Statement(INSERT, [problem(f"{number}")]), Statement(INSERT, [wrong])], "t")
        except sqlite3.IntegrityError:
            assert number % 3 == 0

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(write, number)
    assert await paths(store) == sorted(str(number) for number in range(12) if number % 3 for _ in range(2))


@pytest.mark.parametrize(("fate", "left"), [("done, but told to have failed", ["a"]), ("not done", [])])
async def test_a_commit_that_fails_is_said_to_be_unknown(
    tmp_path: Path, fate: Literal["done, but told to have failed", "not done"], left: list[str]
) -> None:
    migrate(tmp_path / "runward.db")
    store = Store(Uncertain(await connect(tmp_path / "runward.db"), [fate]))
    with pytest.raises(CommitUnknown, match="disk I/O error"):
        await store.run([Statement(INSERT, [problem("a")])], "t")
    assert await paths(store) == left
    await store.run([Statement(INSERT, [problem("b")])], "t")
    assert await paths(store) == [*left, "b"]
    await store.close()


async def test_the_connection_is_durable_and_keeps_foreign_keys(store: Store) -> None:
    assert await store.read("pragma synchronous") == [(2,)]
    assert await store.read("pragma journal_mode") == [("wal",)]
    assert await store.read("pragma foreign_keys") == [(1,)]


async def test_a_full_disk_leaves_nothing_and_the_store_usable(store: Store) -> None:
    ((pages,),) = await store.read("pragma page_count")
    await store.read(f"pragma max_page_count = {pages!r}")
    big = [
        Statement(INSERT, [(f"{number}", "x" * 4000, 1.0) for number in range(200)]),
        Statement(INSERT, [problem("z")]),
    ]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        await store.run(big, "t")
    await store.read("pragma max_page_count = 100000")
    assert await paths(store) == []
    await store.run(big, "t")
    assert len(await paths(store)) == 201
