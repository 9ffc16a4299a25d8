"""Whether the store is sound: its schema, its version and its pages."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from runward.daemon.store.migrate import make_empty, migrations
from runward.daemon.store.reading import STORE, uri_of
from runward.daemon.store.transaction import StoreMalformed

_ROWS: Final = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_stat%'"
_SHOWN: Final = 3
KINDS: Final = ("table", "index", "trigger", "view")
ACTING: Final = ("trigger", "view")
"""Schema objects that change the record without a statement of Runward's, or change how it reads."""

Schema: TypeAlias = frozenset[tuple[str, str, str, str | None]]
"""What `sqlite_schema` says: each row's type, name, table and text."""


def difference(connection: sqlite3.Connection, version: int, kinds: Sequence[str] = KINDS) -> str | None:
    """How the store's schema differs from that of `version`; None if it doesn't. Raises `sqlite3.Error`."""
    found, made = (
        frozenset(row for row in rows if row[0] in kinds)
        for rows in (connection.execute(_ROWS), _made(version))
    )
    there, missing = _names(found - made), _names(made - found)
    changed = sorted(there & missing)
    told = [
        *(f"{name} differs from what Runward creates" for name in changed),
        *(f"{name} is not Runward's" for name in sorted(there - missing)),
        *(f"{name} is missing" for name in sorted(missing - there)),
    ]
    more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return ", ".join([*told[:_SHOWN], *more]) or None


def _names(rows: Schema) -> set[str]:
    return {f"the {kind} {name!r}" for kind, name, _, _ in rows}


@cache
def _made(version: int) -> Schema:
    """The schema that the migrations up to this version make."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_empty(connection, version)
        return frozenset(connection.execute(_ROWS))


def refuse_strange(store: Path, version: int) -> None:
    """Raises `StoreMalformed` if the store has triggers or views that aren't Runward's, and `sqlite3.Error`."""
    with closing(sqlite3.connect(f"{uri_of(str(store))}?mode=ro", uri=True)) as connection:
        strange = difference(connection, version, ACTING)
    if strange is not None:
        raise StoreMalformed(
            f"somebody changed its schema: {strange}: keep a copy of the store, then `runward restore BACKUP`"
        )


_INSTRUCTIONS: Final = 100_000
"""SQLite's steps between two checks of the time."""


class Soundness(NamedTuple):
    """A store: the version of its schema and the newest that this program knows, its pages, and its log (bytes)."""

    version: int
    known: int
    page_size: int
    pages: int
    free_pages: int
    journal_mode: str
    log_bytes: int


def soundness(state: Path) -> Soundness:
    """The state of the store at `state`. Raises `sqlite3.Error` if it is not a store, or can't be read."""
    with _reading(state) as connection:
        values = [
            connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("user_version", "page_size", "page_count", "freelist_count", "journal_mode")
        ]
    version, page_size, pages, free, mode = values
    try:
        log = (state / f"{STORE}-wal").stat().st_size
    except FileNotFoundError:
        log = 0
    return Soundness(version, migrations()[-1].number, page_size, pages, free, str(mode), log)


def strange_schema(state: Path, version: int) -> str | None:
    """How the schema of the store at `state` differs from what Runward gave it. Raises `sqlite3.Error`."""
    with _reading(state) as connection:
        return difference(connection, version)


def quick_check(state: Path, within: float) -> list[str] | None:
    """The complaints of `pragma quick_check`; None if it didn't finish within this many seconds.

    Raises `sqlite3.Error`.
    """
    give_up = time.monotonic() + within
    with _reading(state) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > give_up, _INSTRUCTIONS)
        try:
            rows = connection.execute("pragma quick_check(10)").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return None
    lines = [line for (text,) in rows for line in str(text).splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def can_write_ahead(path: Path) -> bool:
    """Whether a new database at `path` can have a log that another connection can read. Raises `sqlite3.Error`."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        mode = writer.execute("pragma journal_mode = wal").fetchone()[0]
        writer.execute("create table t (a integer) strict")
        writer.execute("begin immediate")
        writer.execute("insert into t values (1)")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            before = reader.execute("select count(*) from t").fetchone()[0]
            writer.execute("commit")
            after = reader.execute("select count(*) from t").fetchone()[0]
    return (mode, before, after) == ("wal", 0, 1)


@contextmanager
def _reading(state: Path) -> Iterator[sqlite3.Connection]:
    uri = f"{uri_of(str(state / STORE))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5)) as connection:
        yield connection
