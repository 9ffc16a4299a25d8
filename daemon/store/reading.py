"""The store as commands read it: read-only, in one short transaction, whether the daemon is up or down.

It uses plain sqlite3 and named tuples, because `runward status` must start fast. The writer is `store.py`.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import Final, Literal

from runward.daemon.store.rows import value_of
from runward.daemon.users import name_of

STORE: Final = "runward.db"

LAST: Final = (1 << 63) - 1
"""A number after which nothing comes."""

MOST_SEARCHED: Final = 50_000
"""Chain runs, invocations or sessions that one search of a page looks at."""

_MIGRATIONS: Final = os.path.join(os.path.dirname(__file__), "migrations")


class StoreUnreadable(Exception):
    """There is a store, but this program can't read it; the message says why and what to do."""


class StoreRefused(StoreUnreadable):
    """The store was written by a Runward so old or so new that this one must not touch it."""


@contextmanager
def reading(state: str) -> Iterator[sqlite3.Connection]:
    """The store of the state directory `state`, as it is at this moment. If no daemon has run yet, it is empty.

    Raises `StoreUnreadable`.
    """
    path = os.path.join(state, STORE)
    connection = _take_kept(path) or (_connect(path) if exists(state) else _empty())
    try:
        # One transaction: all queries of a command see the same moment, whatever the daemon commits meanwhile.
        connection.execute("begin")
        yield connection
        if _kept is not None and path not in _kept:
            connection.rollback()
            _kept[path] = connection
    except sqlite3.OperationalError as error:
        raise StoreUnreadable(f"{path} can't be read: {error}; try again, or see `runward log`") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnreadable(_no_store(path, error)) from error
    finally:
        if _kept is None or _kept.get(path) is not connection:
            connection.close()


_kept: dict[str, sqlite3.Connection] | None = None


def keep_open() -> None:
    """From now on, this process keeps a store open that it has read.

    It takes a hundred times as long to open one, which parses its whole schema, as to ask it for a few rows. For a program that ends
    with the daemon: in a daemon's time, nobody replaces its store. It may read in one thread only.
    """
    global _kept
    _kept = {}


def _take_kept(path: str) -> sqlite3.Connection | None:
    return None if _kept is None else _kept.pop(path, None)


def exists(state: str) -> bool:
    """Whether a daemon ever made a store here. Raises `StoreUnreadable` if this user has no right to see it."""
    path = os.path.join(state, STORE)
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreUnreadable(f"{path} can't be read: {error.strerror}; {_fix(path)}") from error
    return True


def _fix(path: str) -> str:
    """How to fix a store that this user can't read. It names the owner if known."""
    for place in (path, os.path.dirname(path)):
        try:
            owner = os.stat(place).st_uid
        except OSError:
            continue
        if owner != os.geteuid():
            return f"it belongs to {name_of(owner)}: run this as that user, or set another RUNWARD_STATE_DIR"
        break
    return "check its permissions"


def _no_store(path: str, error: sqlite3.DatabaseError) -> str:
    return f"{path} is not a Runward store: {error}; put a backup in its place with `runward restore BACKUP`"


def _connect(path: str) -> sqlite3.Connection:
    connection, version, is_new = _open(path)
    _, known = _versions()
    # Commands never migrate. A running daemon of another version would otherwise lose its schema under its feet.
    if version == known:
        return connection
    connection.close()
    # A daemon is about to make it.
    if is_new:
        return _empty()
    refuse_old(path, version)
    message = f"{path} has version {version}, this Runward reads {known}"
    if version > known:
        raise StoreRefused(f"{message}: it was written by a newer Runward: install that one")
    raise StoreUnreadable(f"{message}: start the daemon of this version once, which brings it up to date")


def open_to_read(path: str) -> sqlite3.Connection:
    """A read-only connection to the store at `path`, which may be older. Raises `StoreUnreadable`, `StoreRefused`."""
    connection, version, _ = _open(path)
    oldest, newest = _versions()
    if version == 0 or oldest <= version <= newest:
        return connection
    connection.close()
    refuse_old(path, version)
    raise StoreRefused(f"{path} was written by a newer Runward (version {version}): install that one")


def _open(path: str) -> tuple[sqlite3.Connection, int, bool]:
    """A read-only connection, the version of the schema there, and whether there is nothing yet."""
    try:
        connection = sqlite3.connect(f"{uri_of(path)}?mode=ro", uri=True, isolation_level=None, timeout=5)
        version: int = connection.execute("pragma user_version").fetchone()[0]
        is_new = version == 0 and connection.execute("select 1 from sqlite_schema").fetchone() is None
    except sqlite3.OperationalError as error:
        raise StoreUnreadable(f"{path} can't be read: {error}; {_fix(path)}") from error
    except sqlite3.DatabaseError as error:
        raise StoreUnreadable(_no_store(path, error)) from error
    return connection, version, is_new


def refuse_old(path: str, version: int) -> None:
    """Raises `StoreRefused` for a store of a version that can't be brought up to date. 0 is no store."""
    oldest, _ = _versions()
    if 0 < version < oldest:
        raise StoreRefused(
            f"{path} has version {version}, and this Runward reads stores from version {oldest} on: use the Runward"
            " that wrote it, or move it away and begin a new record (run directories and journals stay)"
        )


def uri_of(path: str) -> str:
    """A path in SQLite's URI format; the caller adds `?` and parameters."""
    return "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _empty() -> sqlite3.Connection:
    """A store in which nothing has happened."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(_nothing())
    return connection


@cache
def _nothing() -> bytes:
    """Its bytes. To copy them takes a fiftieth of the time of the migrations, and a screen reads every second."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for name in sorted(os.listdir(_MIGRATIONS)):
            with open(os.path.join(_MIGRATIONS, name), encoding="utf-8") as file:
                made.executescript(file.read())
        return made.serialize()


def begins(column: str) -> str:
    """The condition that a column begins with the parameter ?1, so that SQLite looks only there in its index."""
    return f"({column} >= ?1 and {column} < ?1 || char(1114111))"


def _versions() -> tuple[int, int]:
    """The oldest and the newest version that this program reads: no release wrote an earlier one."""
    numbers = [int(name[:4]) for name in os.listdir(_MIGRATIONS) if name.endswith(".sql")]
    return min(numbers), max(numbers)


def epoch(connection: sqlite3.Connection) -> int:
    """How many daemons have owned the store so far."""
    (number,) = connection.execute("select epoch from daemon").fetchone()
    assert isinstance(number, int)
    return number


def search_end(
    connection: sqlite3.Connection,
    table: Literal["chain_runs", "invocations", "sessions"],
    before: float | None,
    chain: str | None = None,
) -> float | None:
    """The time up to which a search reads that begins at the time `before`; None if it reads all that is older."""
    began = "started_at" if table == "sessions" else "created_at"
    chosen = ("" if before is None else f" and {began} < :before") + (
        "" if chain is None else " and chain = :chain"
    )
    row = connection.execute(
        f"select {began} from {table} where true{chosen} order by {began} desc limit 1 offset :most - 1",  # noqa: S608 # our own words
        {"before": before, "chain": chain, "most": MOST_SEARCHED},
    ).fetchone()
    return value_of(float, row)
