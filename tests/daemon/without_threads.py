"""A daemon in this process without threads: what they would do is done at once.

For tests that play many small histories, in which to change between threads would take longer than all else. The
simulation has the same; threads themselves have their own tests.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import anyio
import anyio.lowlevel
from tests.daemon import in_process

from runward.daemon.store import store
from runward.daemon.store.store import Connection, Cursor

T = TypeVar("T")


@contextmanager
def without_threads() -> Iterator[None]:
    """Run work meant for threads in the caller instead, the store's work included."""
    with (
        patch("anyio.to_thread.run_sync", _at_once),
        patch("anyio.from_thread.check_cancelled", lambda: None),
        patch.object(in_process, "connect", _connect),
    ):
        yield


async def _at_once(
    function: Callable[..., T],
    *arguments: Any,
    abandon_on_cancel: bool = False,
    limiter: anyio.CapacityLimiter | None = None,
) -> T:
    await anyio.lowlevel.checkpoint()
    return function(*arguments)


async def _connect(path: Path) -> Connection:
    connection = sqlite3.connect(path, isolation_level="IMMEDIATE", cached_statements=256)
    for pragma in store._PRAGMAS:
        connection.execute(f"pragma {pragma}")
    return _Inline(connection)


class _Inline:
    """The store's connection: SQLite itself, each of whose statements is over before another one begins."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def execute(self, sql: str, parameters: Iterable[Any] | None = None) -> Cursor:
        return self._connection.execute(sql, tuple(parameters or ()))

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> Cursor:
        return self._connection.executemany(sql, list(parameters))  # type: ignore[arg-type] # each is a sequence

    async def execute_fetchall(self, sql: str, parameters: Iterable[Any] | None = None) -> Iterable[Any]:
        return self._connection.execute(sql, tuple(parameters or ())).fetchall()

    async def executescript(self, sql_script: str) -> object:
        return self._connection.executescript(sql_script)

    async def commit(self) -> None:
        self._connection.commit()

    async def rollback(self) -> None:
        self._connection.rollback()

    async def close(self) -> None:
        self._connection.close()
