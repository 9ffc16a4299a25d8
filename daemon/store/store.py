"""The daemon's only access to the database: transactions, and the facts that turns need.

A transaction begins with the check of the epoch, and is committed only if every guard held. All of it is one piece of
work in the connection's own thread. It is shielded from cancellation, because a cancelled commit still commits.
"""

import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import anyio

from runward.daemon.disk.epoch import taken_over
from runward.daemon.faults import point
from runward.daemon.store.connection import Connection, Database
from runward.daemon.store.transaction import (
    CommitUnknown,
    EpochRefused,
    Fenced,
    Reader,
    Row,
    Statement,
    Value,
    malformed_is_told,
    without_waiting,
)

T = TypeVar("T")

WORTH_IT: Final = 4 << 20
"""Bytes of the log from which on a checkpoint is worth its syncs."""


class Checkpointer:
    """Checkpoints one store. Its calls block: make them in a thread, one at a time."""

    def __init__(self, path: Path) -> None:
        self._log = f"{path}-wal"
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)

    def is_due(self) -> bool:
        """Whether the log has grown enough."""
        try:
            return os.stat(self._log).st_size > WORTH_IT
        except OSError:
            return False

    def run(self) -> bool:
        """Move what can be moved without waiting for readers; returns whether that was everything.

        Raises `sqlite3.Error` if the disk refuses.
        """
        # Passive, because any other checkpoint waits for readers, and verdicts would wait with it.
        _, in_log, moved = self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        return bool(in_log == moved)

    def close(self) -> None:
        self._connection.close()


class Store:
    """The database behind one connection, for the daemon that owns `epoch`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = anyio.Lock()
        self.epoch = 0
        self.boot_id = ""
        """The name of the boot in which this daemon took over; empty where it has none."""
        self.after_clean_stop = True
        """Whether the daemon before this one ended in order, and the machine has run since."""
        self.fences_refused = 0
        self.commits = 0
        self.tell_commit: Callable[[], None] = _nobody
        """Called after each commit."""

    async def take_over(self, boot_id: str = "", state_dir: str | None = None) -> int:
        """Begin the next epoch in this state directory: from its commit on, no older daemon can write.

        If the boot has no name (`boot_id` is empty), an orderly stop counts whenever it was.
        """

        def take(database: Database) -> tuple[int, bool]:
            # The lock comes before the look: two daemons that start together would otherwise take the same epoch.
            database.execute("begin immediate")
            ((epoch, is_clean),) = database.execute(
                "select epoch + 1, stopped_cleanly and (boot_id = ?1 or '' in (boot_id, ?1)) from daemon",
                (boot_id,),
            ).fetchall()
            database.execute(
                "update daemon set epoch = epoch + 1, stopped_cleanly = 0, boot_id = ?, state_dir = ? where id = 1",
                (boot_id, state_dir),
            )
            database.commit()
            return int(epoch), bool(is_clean)

        self.epoch, self.after_clean_stop = await self._work(take)
        self.boot_id = boot_id
        return self.epoch

    async def run(self, statements: Sequence[Statement], name: str) -> None:
        """Run the statements in one durable transaction, or not at all.

        Raises `EpochRefused`, `Fenced`, `StoreMalformed`, `sqlite3.Error` for what the database refused, and
        `CommitUnknown` if it can't be told whether the commit happened.
        """
        await self.transact(lambda transaction: transaction.write(statements), name)

    async def transact(self, work: Callable[["Transaction"], T], name: str) -> T:
        """Do this work in the connection's thread, in one durable transaction, or not at all; returns its result.

        The work may neither wait nor open a file: it holds up all who write or read here. Raises what the work raises,
        and the same as `run`.
        """
        result = await self._work(lambda database: self._transacted(database, work, name))
        self.tell_commit()
        return result

    async def _work(self, work: Callable[[Database], T]) -> T:
        with anyio.CancelScope(shield=True), malformed_is_told():
            async with self._lock:
                result = await self._connection.call(work)
        return result

    def _transacted(self, database: Database, work: Callable[["Transaction"], T], name: str) -> T:
        point(f"commit.{name}.begin")
        try:
            database.execute("begin immediate")
            # Read within the transaction. A daemon that slept through a takeover would otherwise write once more.
            ((current,),) = database.execute("select epoch from daemon where id = 1").fetchall()
            self._check_epoch(current)
            result = work(Transaction(database))
        except BaseException as error:
            if isinstance(error, Fenced | EpochRefused):
                self.fences_refused += 1
            _roll_back(database)
            raise
        point(f"commit.{name}.before")
        try:
            with malformed_is_told():
                database.commit()
        except sqlite3.Error as error:
            # The commit may be in the log all the same. Only the tokens in the store can say; a retry could do it twice.
            _roll_back(database)
            raise CommitUnknown(str(error)) from error
        self.commits += 1
        point(f"commit.{name}.after")
        return result

    def _check_epoch(self, current: int) -> None:
        if current != self.epoch:
            raise EpochRefused(taken_over(self.epoch, current))

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query, in one go; no cursor stays open. Raises `StoreMalformed` and `sqlite3.Error`."""
        with malformed_is_told():
            async with self._lock:
                return await self._connection.call(
                    lambda database: database.execute(sql, parameters).fetchall()
                )

    async def consult(self, ask: Callable[[Reader], Awaitable[T]]) -> T:
        """What this makes of several queries, which cost one hand-over to the connection's thread, and back.

        It may wait for nothing but its reader. Raises what it raises, and the same as `read`.
        """
        with malformed_is_told():
            async with self._lock:
                return await self._connection.call(lambda database: without_waiting(ask(_Reading(database))))

    async def answer(self) -> None:
        """Return once everything queued before is done: this shows that transactions are processed, even if they fail."""
        try:
            await self.read("select epoch from daemon where id = 1")
        except sqlite3.Error:
            # The disk refuses, but the thread lives; real reads and writes report that.
            return

    async def give_pages_back(self, most: int) -> int:
        """Give the file's free pages back to the disk, at most this many; returns how many are left.

        No stored data changes, so this needs neither transaction nor epoch. Raises `sqlite3.Error`.
        """

        def give(database: Database) -> int:
            # A script runs to its end; `execute` would give back only one page.
            database.executescript(f"pragma incremental_vacuum({most})")
            ((left,),) = database.execute("pragma freelist_count").fetchall()
            return int(left)

        return await self._work(give)

    async def close(self) -> None:
        """Close the connection, after a checkpoint of what is still in the log."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._connection.close()


def _nobody() -> None:
    """Nobody wants to know."""


class _Reading:
    """The database, for what reads in the connection's thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query, with what was written before in this transaction. It never waits."""
        return self._database.execute(sql, parameters).fetchall()


class Transaction(_Reading):
    """An open transaction, for the work that is done in it."""

    def write(self, statements: Iterable[Statement]) -> None:
        """Run the statements. Raises `Fenced` and `sqlite3.Error`; the transaction is then undone as a whole."""
        for statement in statements:
            touched = self._database.executemany(statement.sql, statement.rows).rowcount
            if statement.exact and touched != len(statement.rows):
                raise Fenced(f"{touched} of {len(statement.rows)} rows: {statement.sql}")

    def define(self, sql: str) -> None:
        """Make or drop something that belongs to this connection alone. Raises `sqlite3.Error`."""
        self._database.execute(sql)


def _roll_back(database: Database) -> None:
    try:
        database.rollback()
    except sqlite3.Error:
        # SQLite rolled the transaction back itself, as it does when the disk is full.
        pass
