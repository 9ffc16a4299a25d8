"""A connection whose commits can be made to fail, after they happened or instead."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from runward.daemon.store.connection import Connection, Cursor, Database

T = TypeVar("T")


@dataclass
class Uncertain:
    """As `connection`, but that each of `commits`, in order, is what becomes of a commit; then all go well.

    `unreadable` is how many reads after such a commit fail too.
    """

    connection: Connection
    commits: list[Literal["well", "done, but told to have failed", "not done"]] = field(default_factory=list)
    unreadable: int = 0
    is_open: bool = False
    """Whether work is being done with it."""

    async def call(self, work: Callable[[Database], T]) -> T:
        def watched(database: Database) -> T:
            self.is_open = True
            try:
                return work(_Uncertain(database, self))
            finally:
                self.is_open = False

        return await self.connection.call(watched)

    async def close(self) -> None:
        await self.connection.close()


@dataclass
class _Uncertain:
    database: Database
    fates: Uncertain

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        if self.fates.unreadable and not self.fates.commits and not sql.startswith("begin"):
            self.fates.unreadable -= 1
            raise sqlite3.OperationalError("disk I/O error")
        return self.database.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        return self.database.executemany(sql, parameters)

    def executescript(self, script: str, /) -> object:
        return self.database.executescript(script)

    def commit(self) -> None:
        fate = self.fates.commits.pop(0) if self.fates.commits else "well"
        if fate != "not done":
            self.database.commit()
        if fate != "well":
            raise sqlite3.OperationalError("disk I/O error")

    def rollback(self) -> None:
        self.database.rollback()
