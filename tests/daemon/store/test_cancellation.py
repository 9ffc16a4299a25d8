"""What cancelling does to transactions.

Work in the connection's thread runs on when its caller is cancelled: a commit would have committed while its caller
believes the contrary. So the store shields the whole.
"""

import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from runward.daemon.store.connection import Database, connect
from runward.daemon.store.schema import migrate
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import Statement

INSERT = "insert into problems (path, message, since) values (?, ?, 1.0)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    migrate(tmp_path / "runward.db")
    return tmp_path / "runward.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = Store(await connect(path))
    await opened.take_over()
    yield opened
    await opened.close()


def _nobody_is_locked_out(path: Path) -> None:
    """Another writer gets its turn at once."""
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    other.execute("begin immediate")
    other.execute("rollback")
    other.close()


async def test_after_each_of_100_random_cancellations_the_store_is_as_its_caller_was_told(
    store: Store, path: Path
) -> None:
    chance = random.Random(20260203)
    told: set[str] = set()
    for number in range(100):
        rows = [(f"{number}-{row}", "x" * chance.choice([1, 5000])) for row in range(chance.randint(1, 60))]

        async def write(rows: list[tuple[str, str]] = rows) -> None:
            await store.run([Statement(INSERT, [row]) for row in rows], "t")
            told.update(name for name, _ in rows)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await anyio.sleep(chance.random() * 0.004)
            tasks.cancel_scope.cancel()
        _nobody_is_locked_out(path)
        found = {str(name) for (name,) in await store.read("select path from problems")}
        assert found == told, f"after {number} cancellations"
    assert told, "some were carried out"


async def test_a_transaction_takes_the_write_lock_before_it_reads(path: Path) -> None:
    # A deferred transaction that writes after it read fails at once where somebody wrote in between, whatever the
    # busy timeout: so each begins immediately.
    connection = await connect(path)
    said: list[str] = []

    def trace(database: Database) -> None:
        assert isinstance(database, sqlite3.Connection)
        database.set_trace_callback(said.append)

    await connection.call(trace)
    store = Store(connection)
    await store.take_over()
    await store.run([Statement(INSERT, [("a", "b")])], "t")
    await store.close()
    begins = [statement.lower() for statement in said if statement.lower().startswith("begin")]
    assert begins == ["begin immediate", "begin immediate"]
    for statement in said:
        assert not statement.lower().startswith("begin deferred")
    assert said[0].lower() == "begin immediate"


async def test_a_statement_behind_one_that_rolled_everything_back_is_not_committed_by_itself(
    store: Store, path: Path
) -> None:
    # SQLite rolls the whole transaction back on some errors (a full disk is one). Without a transaction, what was
    # queued behind would be committed by itself, statement by statement. `or rollback` is such an error at will.
    await store.read("create unique index once on problems (path)")
    statements = [
        Statement(INSERT, [("first", "x")]),
        Statement(
            "insert or rollback into problems (path, message, since) values (?, ?, 1.0)", [("first", "x")]
        ),
        Statement(INSERT, [("behind", "x")]),
        Statement(INSERT, [("further behind", "x")]),
    ]
    with pytest.raises(sqlite3.IntegrityError):
        await store.run(statements, "t")
    assert await store.read("select path from problems") == []
    _nobody_is_locked_out(path)
    await store.run([Statement(INSERT, [("after", "x")])], "t")
    assert await store.read("select path from problems") == [("after",)]


async def test_closing_is_carried_out_although_everything_is_being_cancelled(path: Path) -> None:
    # anyio: an unshielded await in a cleanup raises at once, and the connection would stay open.
    opened = Store(await connect(path))
    with anyio.CancelScope() as scope:
        try:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        finally:
            await opened.close()
    with pytest.raises(ValueError, match="connection is closed"):
        await opened.read("select 1")
    assert not path.with_name("runward.db-wal").exists(), "the last connection took its log with it"
