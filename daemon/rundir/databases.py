"""Reading a tool's SQLite database, which the tool may be writing to.

Nothing is ever written to it or beside it, and no lock is waited for longer than a moment. It is opened for each question and closed
again, so a checkpoint of the tool is never kept waiting. Only real tables are asked, so nothing in the schema runs; and each question
is bounded, in time and in bytes. Raises `OSError` for what may pass, and `CannotAsk`.
"""

import errno
import os
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final
from urllib.parse import quote

from runward.daemon.rundir.opening import REGULAR, held
from runward.daemon.rundir.session_logs import CannotUnpack
from runward.handlers.layouts.layout import Database, Row
from runward.handlers.layouts.places import WAL
from runward.handlers.model.files import Signature, signature_of

SHM: Final = "-shm"
BUSY_S: Final = 0.25
LONGEST_S: Final = 20.0
"""Seconds that one question may take: a hostile database may be one endless row after the other."""

LONGEST_VALUE: Final = 64 << 20
"""Bytes of a value that are read, as many as of a line."""

_MAGIC: Final = b"SQLite format 3\0"
_HEADER: Final = 100
_WAL_MODE: Final = 2
_STEPS: Final = 100_000
_PIECE: Final = 1 << 20
MOST_COPIED: Final = 256 << 20
"""Bytes of a database that is copied to be read."""

# Not `trusted_schema = off`: Kilo's indexes use functions that are refused then. Reading runs none of them.
_PRAGMAS: Final = ("query_only = on", "cell_size_check = on", "mmap_size = 0")
_MAY_PASS: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}

_ONE_AT_A_TIME: Final = threading.RLock()
"""The locks that SQLite takes are the process's: closing the file anywhere else would release them while they are needed."""

_known: dict[str, tuple[int, int, int, tuple[str, ...]]] = {}
"""The schemas that were found to be known: device, inode and number of the schema, by path."""


_copy: tuple[object, tempfile.TemporaryDirectory[str]] | None = None


class CannotAsk(CannotUnpack):
    """The database can't be read: the end of a sentence that begins with its name."""


class TriedTooSoon(Exception):
    """The tool opened the database meanwhile."""


def state_of(path: str) -> tuple[Signature, Signature | None]:
    """What changes whenever something is written to the database. Raises `OSError` if there is none."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise CannotAsk("is not a regular file")
    log = _signature(path + WAL)
    # SQLite sets the log's owner whenever a privileged user opens it, so this time is our own doing, too.
    return signature_of(status), None if log is None else log._replace(changed_ns=0)


@dataclass(slots=True)
class _Open:
    """A connection. `files` must be the same afterwards if it reads without locks; until `end` it may take."""

    path: str
    connection: sqlite3.Connection
    files: object
    end: float = 0.0


class _Kept(threading.local):
    is_on = False
    opened: _Open | None = None


_kept: Final = _Kept()


@contextmanager
def kept_open() -> Iterator[None]:
    """Until the end, questions of this thread to the same database share a connection: opening one costs more than a question."""
    _kept.is_on = True
    try:
        yield
    finally:
        _kept.is_on = False
        _close_kept()


def _close_kept() -> None:
    opened, _kept.opened = _kept.opened, None
    if opened is not None:
        with _ONE_AT_A_TIME:
            opened.connection.close()


@contextmanager
def asked(path: str, database: Database) -> Iterator[sqlite3.Connection]:
    """The database at `path`, for questions about one state of it."""
    with _ONE_AT_A_TIME, _translated():
        opened = _kept.opened
        if opened is None or opened.path != path or opened.files not in (None, _files(path)):
            _close_kept()
            opened = _open(path)
        _kept.opened = None
        is_good = False
        try:
            opened.end = time.monotonic() + LONGEST_S
            opened.connection.execute("begin")
            _check(opened.connection, path, database)
            yield opened.connection
            opened.connection.rollback()
            is_good = _kept.is_on
        finally:
            if is_good:
                _kept.opened = opened
            else:
                opened.connection.close()
        # What is read without locks counts only if nobody wrote meanwhile.
        if opened.files not in (None, _files(path)):
            raise OSError(errno.EAGAIN, "it was written to while it was read")


def _open(path: str) -> _Open:
    for left in (2, 1, 0):
        try:
            connection, files = _opened(path)
        except TriedTooSoon:
            if not left:
                raise
            time.sleep(0.01)
            continue
        opened = _Open(path, connection, files, time.monotonic() + LONGEST_S)
        try:
            _bound(opened)
        except BaseException:
            connection.close()
            raise
        return opened
    raise AssertionError("the last try raises")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except TriedTooSoon:
        raise OSError(errno.EAGAIN, "it was just opened by another program") from None
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            raise CannotAsk(f"took more than {LONGEST_S:g} s to read") from error
        if code in _MAY_PASS:
            raise OSError(errno.EBUSY, f"it can't be read now: {error}") from error
        raise CannotAsk(f"can't be read: {error}") from error


def _opened(path: str) -> tuple[sqlite3.Connection, object]:
    """A connection that writes nothing; and what must be the same afterwards, if it reads without locks."""
    before = _files(path)
    own, wal, shm = before
    if own is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    with held(os.open(path, REGULAR)) as descriptor:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        head = os.pread(descriptor, _HEADER, 0) if is_regular else b""
    if not head.startswith(_MAGIC):
        # Its first page is only in the log until that is first copied.
        raise CannotAsk("is empty" if not head else "is not a SQLite database")
    if _WAL_MODE not in head[18:20]:
        return _connection(path, "mode=ro"), None
    # Opening such a database makes the log and the `-shm` file if they are missing. We may not: so either both are there, or
    # there is nothing in the log, and then the database file alone is all.
    if wal is None or not wal.size:
        return _connection(path, "mode=ro&immutable=1"), before
    if shm is not None:
        return _connection(path, "mode=ro&readonly_shm=1"), None
    return _connection(_copied(path, before), "mode=ro"), None


def _copied(path: str, files: object) -> str:
    """A copy of a database whose log has no `-shm` file, as copies of a home are left: it may be written beside."""
    global _copy  # the last one is kept: its sessions are asked for one by one
    if _copy is None or _copy[0] != (path, files):
        size = sum(os.lstat(f"{path}{end}").st_size for end in ("", WAL))
        if size > MOST_COPIED:
            raise CannotAsk(
                f"has a log ({WAL}), but no {SHM} file: it could only be read as a copy, and has more than"
                f" {MOST_COPIED} bytes; start its program once"
            )
        _copy = None  # removes the one before
        directory = tempfile.TemporaryDirectory(prefix="runward-")
        for end in ("", WAL):
            with (
                held(os.open(f"{path}{end}", REGULAR)) as source,
                open(f"{directory.name}/db{end}", "xb") as copy,
            ):
                _copy_up_to(source, copy, MOST_COPIED)
        if _files(path) != files:
            raise TriedTooSoon
        _copy = ((path, files), directory)
    return f"{_copy[1].name}/db"


def _copy_up_to(source: int, copy: IO[bytes], most: int) -> None:
    """Copy an open file, at most so many bytes of it."""
    at = 0
    while at <= most and (piece := os.pread(source, _PIECE, at)):
        at += copy.write(piece)


def _files(path: str) -> tuple[Signature | None, Signature | None, Signature | None]:
    shm = _signature(path + SHM)
    # Readers write their marks into it.
    return _signature(path), _signature(path + WAL), None if shm is None else Signature(shm.inode, 0, 0)


def _signature(path: str) -> Signature | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise CannotAsk("has a file beside it that is not a regular file")
    return signature_of(status)


def _connection(path: str, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(path)}?{how}", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = bytes
    return connection


def _bound(opened: _Open) -> None:
    connection = opened.connection
    connection.set_progress_handler(lambda: time.monotonic() > opened.end, _STEPS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in _PRAGMAS:
        connection.execute(f"pragma {pragma}")


def _check(connection: sqlite3.Connection, path: str, database: Database) -> None:
    """Whether the tables are there, as tables, with their columns. A view or a virtual table could run anything."""
    (number,) = connection.execute("pragma schema_version").fetchone()
    status = os.lstat(path)
    this = (status.st_dev, status.st_ino, number, tuple(database.tables))
    if _known.get(path) == this:
        return
    for table, columns in database.tables.items():
        row = connection.execute(
            "select sql from sqlite_master where type = 'table' and name = ?", (table,)
        ).fetchone()
        is_real = row is not None and bytes(row[0] or b"").lstrip().lower().startswith(b"create table")
        there = set()
        if is_real:
            # Of a column that is computed, the kind is not 0: computing may run anything.
            rows = connection.execute("select name, hidden from pragma_table_xinfo(?)", (table,))
            there = {name.decode(errors="replace") for name, hidden in rows if hidden == 0}
        lacking = sorted(columns - there)
        if not is_real or lacking:
            what = f"table `{table}`" + (
                f" has no {', '.join(f'`{each}`' for each in lacking)}" if is_real else " is missing"
            )
            raise CannotAsk(
                f"has a schema that isn't known ({_version(connection, database, number)}): its {what}"
            )
    _known[path] = this


def _version(connection: sqlite3.Connection, database: Database, number: int) -> str:
    """Which version of the program and of the schema it is, as far as it says so."""
    said = f"SQLite's schema version {number}"
    try:
        real = connection.execute(
            "select 1 from sqlite_master where type = 'table' and name = 'session' and sql like 'create table%'"
        ).fetchone()
        row = connection.execute(database.version).fetchone() if real else None
    except sqlite3.Error:
        return said
    return (
        said
        if row is None or not isinstance(row[0], bytes)
        else f"version {row[0].decode(errors='replace')[:40]}"
    )


def row_of(columns: tuple[object, ...]) -> Row:
    """A row that was asked for as `(id, created, updated, data, about)`, whatever the types of its values are."""
    row, created, updated, data, about = columns
    return Row(
        row.decode(errors="replace") if isinstance(row, bytes) else str(row),
        created if isinstance(created, int) else 0,
        updated if isinstance(updated, int) else 0,
        data if isinstance(data, bytes) else b"",
        about if isinstance(about, bytes) else None,
    )


def standing(
    connection: sqlite3.Connection,
    database: Database,
    where: str = "",
    values: Mapping[str, object] | tuple[object, ...] = (),
) -> Iterator[tuple[str, int, int]]:
    """Of each session that the condition is about: its id, when it changed last (ms), and a number that grows with it."""
    query = database.standing.replace("{where}", where)
    for session, modified, number in connection.execute(query, values):
        if isinstance(session, bytes) and isinstance(modified, int) and isinstance(number, int):
            yield session.decode(errors="replace"), modified, number
