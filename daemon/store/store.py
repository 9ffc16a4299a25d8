"""The daemon's only access to the database: transactions, and the facts that turns need.

A transaction is data. It begins with the check of the epoch. Its statements are queued together in the connection's own
thread, and it is committed only if every guard held. All of it is shielded from cancellation, because a cancelled
statement still runs and a cancelled commit still commits.
"""

import asyncio
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import aiosqlite
import anyio

from runward.daemon.disk.epoch import taken_over
from runward.daemon.faults import point
from runward.daemon.store.transaction import (
    CommitUnknown,
    EpochRefused,
    Fenced,
    Row,
    Statement,
    Value,
    malformed_is_told,
)

WORTH_IT: Final = 4 << 20
"""Bytes of the log from which on a checkpoint is worth its syncs."""

WRITER_PAGES: Final = 20_000
"""Pages of the log at which the writer would do a checkpoint itself: 80 MB."""


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


_PRAGMAS: Final = (
    "journal_mode = wal",
    # A verdict is acted on once its commit has returned, so the commit must survive a power cut.
    "synchronous = full",
    "foreign_keys = on",
    "recursive_triggers = on",
    # We have one writer, so only a person's tool can hold the lock. Five seconds outlast a short look at the store.
    "busy_timeout = 5000",
    "temp_store = memory",
    f"wal_autocheckpoint = {WRITER_PAGES}",
    "journal_size_limit = 67108864",
)


class Cursor(Protocol):
    """The part of a finished statement that the store reads."""

    @property
    def rowcount(self) -> int: ...


class Connection(Protocol):
    """The part of aiosqlite that the store needs, so that a simulation can answer at once instead."""

    async def execute(self, sql: str, parameters: Iterable[Any] | None = None) -> Cursor: ...

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> Cursor: ...

    async def execute_fetchall(self, sql: str, parameters: Iterable[Any] | None = None) -> Iterable[Any]: ...

    async def executescript(self, sql_script: str) -> object: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...

    async def close(self) -> None: ...


async def connect(path: Path) -> Connection:
    """The daemon's one writing connection, durable at every commit.

    With the implicit `begin` of isolation level IMMEDIATE no statement ever commits on its own. If SQLite rolled a
    transaction back (as it does on a full disk), the statements queued behind it open another one, which is rolled back
    with it. Raises `StoreMalformed` and `sqlite3.Error`.
    """
    connection = await aiosqlite.connect(path, isolation_level="IMMEDIATE", cached_statements=256)
    try:
        with malformed_is_told():
            for pragma in _PRAGMAS:
                await connection.execute(f"pragma {pragma}")
    except BaseException:
        with anyio.CancelScope(shield=True):
            await connection.close()  # its thread would keep the process from ending
        raise
    return connection


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

    async def take_over(self, boot_id: str = "", state_dir: str | None = None) -> int:
        """Begin the next epoch in this state directory: from its commit on, no older daemon can write.

        If the boot has no name (`boot_id` is empty), an orderly stop counts whenever it was.
        """
        with anyio.CancelScope(shield=True), malformed_is_told():
            async with self._lock:
                # The lock comes before the look: two daemons that start together would otherwise take the same epoch.
                await self._connection.execute("begin immediate")
                rows = await self._connection.execute_fetchall(
                    "select epoch + 1, stopped_cleanly and (boot_id = ?1 or '' in (boot_id, ?1)) from daemon",
                    (boot_id,),
                )
                await self._connection.execute(
                    "update daemon set epoch = epoch + 1, stopped_cleanly = 0, boot_id = ?, state_dir = ? where id = 1",
                    (boot_id, state_dir),
                )
                await self._connection.commit()
        epoch, clean = next(iter(rows))
        self.epoch, self.after_clean_stop, self.boot_id = int(epoch), bool(clean), boot_id
        return self.epoch

    async def run(self, statements: Sequence[Statement], name: str) -> None:
        """Run the statements in one durable transaction, or not at all.

        Raises `EpochRefused`, `Fenced`, `StoreMalformed`, `sqlite3.Error` for what the database refused, and
        `CommitUnknown` if it can't be told whether the commit happened.
        """
        with anyio.CancelScope(shield=True), malformed_is_told():
            async with self._lock:
                await self._run(statements, name)

    async def _run(self, statements: Sequence[Statement], name: str) -> None:
        connection = self._connection
        point(f"commit.{name}.begin")
        try:
            # gather starts these in order, and the connection's thread takes them in order.
            begun, epoch, *done = await asyncio.gather(
                connection.execute("begin immediate"),
                # Read within the transaction. A daemon that slept through a takeover would otherwise write once more.
                connection.execute_fetchall("select epoch from daemon where id = 1"),
                *(connection.executemany(each.sql, each.rows) for each in statements),
                return_exceptions=True,
            )
            if isinstance(begun, BaseException):
                raise begun
            if isinstance(epoch, BaseException):
                raise epoch
            self._check_epoch(epoch)
            self._check(statements, done)
        except BaseException as error:
            if isinstance(error, Fenced | EpochRefused):
                self.fences_refused += 1
            await self._roll_back()
            raise
        point(f"commit.{name}.before")
        try:
            with malformed_is_told():
                await connection.commit()
        except sqlite3.Error as error:
            # The commit may be in the log all the same. Only the tokens in the store can say; a retry could do it twice.
            await self._roll_back()
            raise CommitUnknown(str(error)) from error
        self.commits += 1
        point(f"commit.{name}.after")

    def _check_epoch(self, rows: Iterable[Sequence[int]]) -> None:
        current = next(iter(rows))[0]
        if current != self.epoch:
            raise EpochRefused(taken_over(self.epoch, current))

    def _check(self, statements: Sequence[Statement], done: Sequence[object]) -> None:
        for statement, result in zip(statements, done, strict=True):
            if isinstance(result, BaseException):
                raise result
            touched = result.rowcount  # type: ignore[attr-defined] # a Cursor; gather says object
            if statement.exact and touched != len(statement.rows):
                raise Fenced(f"{touched} of {len(statement.rows)} rows: {statement.sql}")

    async def _roll_back(self) -> None:
        try:
            await self._connection.rollback()
        except sqlite3.Error:
            # SQLite rolled the transaction back itself, as it does when the disk is full.
            pass

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query, in one go; no cursor stays open. Raises `StoreMalformed` and `sqlite3.Error`."""
        with malformed_is_told():
            async with self._lock:
                return [tuple(row) for row in await self._connection.execute_fetchall(sql, parameters)]

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
        with anyio.CancelScope(shield=True), malformed_is_told():
            async with self._lock:
                # A script runs to its end; `execute` would give back only one page.
                await self._connection.executescript(f"pragma incremental_vacuum({most})")
                ((left,),) = await self._connection.execute_fetchall("pragma freelist_count")
        return int(left)

    async def close(self) -> None:
        """Close the connection, after a checkpoint of what is still in the log."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._connection.close()
