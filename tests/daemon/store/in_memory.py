"""A store in memory, whose answers come at once: for tests of single questions."""

import sqlite3
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class InMemory:
    """A store whose questions are answered by this connection."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    async def read(self, sql: str, parameters: Any = ()) -> list[Any]:
        return self._database.execute(sql, parameters).fetchall()


def asked(question: Coroutine[Any, Any, T]) -> T:
    """The answer, which the store in memory gives at once."""
    try:
        question.send(None)
    except StopIteration as ended:
        answer: T = ended.value
        return answer
    raise AssertionError("it waits for something")
