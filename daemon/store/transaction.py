"""Transactions as data: statements with their rows, how many rows each must touch, and the values on their way in and out."""

import json
import sqlite3
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]


class Reader(Protocol):
    """Where queries are answered: the store, or an open transaction of it."""

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query. Raises `StoreMalformed` and `sqlite3.Error`."""


def without_waiting(work: Awaitable[T]) -> T:
    """The result of work that never waits, such as one that only reads, in the store's thread."""
    try:
        next(work.__await__())
    except StopIteration as stopped:
        result: T = stopped.value
        return result
    raise RuntimeError("work that is done in the store's thread waits for something")


class Statement(NamedTuple):
    """One SQL statement over many rows.

    With `exact`, each row must touch exactly one row of the table: that is how a guard such as `where token = ?`
    refuses.
    """

    sql: str
    rows: Sequence[Row]
    exact: bool = False


class Fenced(Exception):
    """A guard of the transaction failed: another writer was faster, or an assumption is wrong."""


class EpochRefused(Exception):
    """Another daemon has taken the state directory over since this one started."""

    # Not a kind of `Fenced`: those who try again what was fenced must not try to outlive their successor.


class CommitUnknown(Exception):
    """The commit itself failed, so whether it happened must be found out."""


NOT_STORED: Final = (CommitUnknown, Fenced, sqlite3.Error)
"""After these nothing may be taken for stored. Whatever is still owed is tried again."""


class StoreMalformed(Exception):
    """The database contradicts itself. This is not a `sqlite3.Error`: retrying would never succeed."""


def fix_of_trouble(why: str) -> str:
    """What a person can do about a store that can't be written now, from SQLite's reason."""
    if "locked" in why:
        return "end the program that holds runward.db (fuser runward.db names it)"
    return "free space or repair the disk"


_MALFORMED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def malformed_is_told() -> Iterator[None]:
    """Raises `StoreMalformed` if SQLite says that the database is malformed, or is not a database."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _MALFORMED:
            raise
        raise StoreMalformed(
            f"{error}: keep a copy of the store, then `runward restore BACKUP`; the runs on disk are judged again"
        ) from error


def listed(values: Iterable[object]) -> str:
    """Values as one parameter, for `json_each(?)`."""
    return json.dumps(list(values), ensure_ascii=False)


def as_int(value: object) -> int:
    assert isinstance(value, int)
    return value


def as_float(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def as_bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def stored_text(value: object) -> str:
    """A text that was read as bytes, so that one damaged text doesn't make the whole query fail."""
    return as_bytes(value).decode(errors="replace")
