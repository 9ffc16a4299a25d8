"""A daemon in this process without threads: what they would do is done at once.

For tests that play many small histories, in which to change between threads would take longer than all else. The
simulation has the same; threads themselves have their own tests.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import anyio
import anyio.lowlevel
from tests.daemon import in_process

from runward.daemon.store.connection import Connection, Database, open_writer

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
    return _Inline(open_writer(path))


class _Inline:
    """The store's connection: SQLite itself, whose work is over before anything else begins."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def call(self, work: Callable[[Database], T]) -> T:
        return work(self._connection)

    async def close(self) -> None:
        self._connection.close()
