"""The daemon's one writing connection, in a thread of its own that does one piece of work after the other.

A piece of work is a function of the connection, such as a whole transaction: it costs one change of threads, however
many statements it runs. Work that was begun is never given up: if its caller is cancelled, it still runs to its end.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from runward.daemon.store.transaction import malformed_is_told

T = TypeVar("T")

WRITER_PAGES: Final = 20_000
"""Pages of the log at which the writer would do a checkpoint itself: 80 MB."""

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

    def fetchall(self) -> list[Any]: ...


class Database(Protocol):
    """The part of `sqlite3.Connection` that work needs, so that a simulation can stand in for it."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor: ...

    def executescript(self, script: str, /) -> object: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class Connection(Protocol):
    """Where the store's work is done."""

    async def call(self, work: Callable[[Database], T]) -> T:
        """The result of this work, after all that was begun before."""

    async def close(self) -> None:
        """Close it, after all that was begun before."""


def open_writer(path: Path) -> sqlite3.Connection:
    """A connection that is durable at every commit. Raises `StoreMalformed` and `sqlite3.Error`.

    With the implicit `begin` of isolation level IMMEDIATE no statement ever commits on its own. If SQLite rolled a
    transaction back (as it does on a full disk), a statement behind it would open another one, which is rolled back with
    it.
    """
    connection = sqlite3.connect(path, isolation_level="IMMEDIATE", cached_statements=256)
    try:
        with malformed_is_told():
            for pragma in _PRAGMAS:
                connection.execute(f"pragma {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


_Task: TypeAlias = "tuple[asyncio.Future[Any], Callable[[], object]]"


class WriterThread:
    """A connection in its own thread: SQLite's calls block, and a connection belongs to the thread that opened it."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._connection: sqlite3.Connection
        self._is_open = False
        self._thread = threading.Thread(target=self._serve, name="store")

    async def open(self, path: Path) -> None:
        """Open the connection. Raises `StoreMalformed` and `sqlite3.Error`."""
        self._thread.start()

        def opened() -> sqlite3.Connection:
            return open_writer(path)

        try:
            self._connection = await self._done(opened)
        except BaseException:
            self._tasks.put(None)  # the thread would keep the process from ending
            raise
        self._is_open = True

    async def call(self, work: Callable[[Database], T]) -> T:
        if not self._is_open:
            raise ValueError("the store's connection is closed")
        return await self._done(lambda: work(self._connection))

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                await self._done(lambda: self._connection.close())
            finally:
                self._tasks.put(None)

    async def _done(self, work: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._tasks.put((future, work))
        return await future

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, work = task
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is raised where the work was asked for
                future.get_loop().call_soon_threadsafe(_give_error, future, error)
            else:
                future.get_loop().call_soon_threadsafe(_give, future, result)
            # Otherwise an idle thread would keep the last result in memory.
            del task, future, work


def _give(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():  # cancelled meanwhile
        future.set_result(result)


def _give_error(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


async def connect(path: Path) -> WriterThread:
    """The daemon's one writing connection. Raises `StoreMalformed` and `sqlite3.Error`."""
    connection = WriterThread()
    await connection.open(path)
    return connection
