"""The store's connection without a thread: SQLite in memory that survives its process.

Every statement is answered at once, by the real SQLite. What a process had not committed when it
was killed is rolled back, as its journal would be; a full disk is SQLite's own (`max_page_count`);
a commit may fail before or after it happened.
"""

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from tests.simulation.whole_record import keep_what_goes, whole_record

from runward.daemon.store.connection import Cursor, Database
from runward.daemon.store.schema import migrations

T = TypeVar("T")

ROOMY: Final = 1 << 30
_number = itertools.count()


class Weather(Protocol):
    """What befalls the store's files. Each call may raise `sqlite3.OperationalError`, or `Killed`."""

    def reading(self) -> None: ...

    def writing(self) -> None: ...

    def committing(self) -> None: ...

    def committed(self) -> None: ...

    def found_full(self) -> None: ...


@cache
def _empty() -> bytes:
    """The bytes of a store in which nothing happened yet. To copy them takes a tenth of the time of making them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for step in migrations():
            made.executescript(f"{step.sql}\npragma user_version = {step.number};")
        keep_what_goes(made)
        return made.serialize()


class Disk:
    """The database itself. It lives as long as this object, no matter who opens it."""

    def __init__(self) -> None:
        self.full = False
        self.world = self._make()
        with closing(sqlite3.connect(":memory:")) as made:
            made.deserialize(_empty())
            made.backup(self.world)

    def _make(self) -> sqlite3.Connection:
        self._uri = f"file:/simulated-{next(_number)}?vfs=memdb"
        return self.open()

    def open(self) -> sqlite3.Connection:
        """A connection of its own."""
        connection = sqlite3.connect(
            self._uri, uri=True, isolation_level="IMMEDIATE", check_same_thread=False, cached_statements=256
        )
        connection.execute("pragma foreign_keys = on")
        # Waiting for a lock would be real time; in virtual time anyone who is refused comes again.
        connection.execute("pragma busy_timeout = 0")
        return connection

    def whole(self) -> sqlite3.Connection:
        """All that was ever recorded, on a connection of its own."""
        return whole_record(self._uri)

    def copied(self) -> bytes:
        """A copy of it as it stands. Raises `sqlite3.OperationalError` where somebody has it locked."""
        self.world.execute("begin")
        try:
            self.world.execute("select count(*) from sqlite_master").fetchone()
            return self.world.serialize()
        finally:
            self.world.rollback()

    def replace(self, made: sqlite3.Connection) -> None:
        """Put `made` in its place. Anyone who has the old one open goes on with that."""
        self.world.close()
        self.world = self._make()
        made.backup(self.world)

    def close(self) -> None:
        self.world.close()


class InlineConnection:
    """The daemon's connection. `alive` raises once its process was killed; `committed` is told of every commit."""

    def __init__(
        self, disk: Disk, weather: Weather, alive: Callable[[], None], committed: Callable[[], None]
    ) -> None:
        self._disk = disk
        self._weather = weather
        self._alive = alive
        self._committed = committed
        self._full = False
        self._connection = disk.open()

    @property
    def writing(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    async def call(self, work: Callable[[Database], T]) -> T:
        return work(self)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        self._begin(sql.startswith(("select", "with")))
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        self._begin(False)
        try:
            return self._connection.executemany(sql, parameters)
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                self._weather.found_full()
            raise

    def executescript(self, script: str, /) -> None:
        self._begin(True)
        self._connection.executescript(script)

    def _begin(self, reading: bool) -> None:
        self._alive()
        if reading:
            if not self._connection.in_transaction:
                self._weather.reading()
            return
        self._weather.writing()
        if self._full != self._disk.full:
            self._full = self._disk.full
            pages = self._connection.execute("pragma page_count").fetchone()[0] if self._full else ROOMY
            self._connection.execute(f"pragma max_page_count = {pages}")

    def commit(self) -> None:
        self._alive()
        self._weather.committing()
        self._connection.commit()
        self._committed()
        self._weather.committed()

    def rollback(self) -> None:
        self._alive()
        self._connection.rollback()

    async def close(self) -> None:
        self._alive()
        self._connection.close()

    def abandon(self) -> None:
        """The process is gone: what it had not committed never was."""
        try:
            self._connection.rollback()
            self._connection.close()
        except sqlite3.ProgrammingError:
            return  # it was closed in order
