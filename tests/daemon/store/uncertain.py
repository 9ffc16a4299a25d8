"""A connection whose commits can be made to fail, after they happened or instead."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from runward.daemon.store.store import Connection, Cursor


@dataclass
class Uncertain:
    """As `connection`, but that each of `commits`, in order, is what becomes of a commit; then all go well.

    `unreadable` is how many reads after such a commit fail too.
    """

    connection: Connection
    commits: list[Literal["well", "done, but told to have failed", "not done"]] = field(default_factory=list)
    unreadable: int = 0

    async def execute(self, sql: str, parameters: Iterable[Any] | None = None) -> Cursor:
        return await self.connection.execute(sql, parameters)

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> Cursor:
        return await self.connection.executemany(sql, parameters)

    async def executescript(self, sql_script: str) -> object:
        return await self.connection.executescript(sql_script)

    async def execute_fetchall(self, sql: str, parameters: Iterable[Any] | None = None) -> Iterable[Any]:
        if self.unreadable and not self.commits:
            self.unreadable -= 1
            raise sqlite3.OperationalError("disk I/O error")
        return await self.connection.execute_fetchall(sql, parameters)

    async def commit(self) -> None:
        fate = self.commits.pop(0) if self.commits else "well"
        if fate != "not done":
            await self.connection.commit()
        if fate != "well":
            raise sqlite3.OperationalError("disk I/O error")

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def close(self) -> None:
        await self.connection.close()
