"""Backups: a consistent copy of the store in one file, taken while a daemon keeps writing; and whether a file is a sound store."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.disk.copying import Tell, copied, tell_nobody
from runward.daemon.disk.durable import sync_directory
from runward.daemon.store.hash_chain import BrokenChain, ChainedEvent, Head, follow
from runward.daemon.store.reading import StoreRefused, open_to_read, refuse_old, uri_of
from runward.daemon.store.schema import difference, migrations

_EVENTS: Final = (
    "select seq, hash, key, type, version, recorded_at, cause, depth, payload from events order by seq"
)

_LAST_AT: Final = "select recorded_at from (select max(seq), recorded_at from events)"


class Damaged(Exception):
    """A file that is not a sound store; the message says what is wrong with it."""


class Examined(NamedTuple):
    """A sound store: its schema's version, its daemon's epoch, the end of its chain, and how much is in it.

    `last_at` is when its last event was recorded (Unix seconds; None if there is none), `size` its bytes.
    """

    version: int
    epoch: int
    head: Head
    last_at: float | None
    sessions: int
    size: int


def examine(path: Path) -> Examined:
    """Read all of the store at `path`, which must have no writer. Writes nothing, not even next to it.

    Raises `Damaged`, `StoreRefused` and `OSError`.
    """
    size = path.stat().st_size
    if _has_log(path):
        raise Damaged(f"{path} was not copied by `runward backup`: it lacks what is in {path.name}-wal")
    try:
        with unchanging(path) as connection:
            _check_schema(connection, path)
            return examined(connection, path, size)
    except sqlite3.Error as error:
        raise Damaged(f"{path} is not a readable store: {error}") from error


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `Damaged` if a store of a known version has foreign triggers, views or tables."""
    (version,) = connection.execute("pragma user_version").fetchone()
    known = migrations()
    if known[0].number <= version <= known[-1].number:
        different = difference(connection, version)
        if different is not None:
            raise Damaged(f"{path} has a schema that Runward did not create: {different}")


def _has_log(path: Path) -> bool:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


@contextmanager
def unchanging(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a store that has no writer. It writes nothing, not even next to the store.

    Raises `sqlite3.Error`.
    """
    connection = sqlite3.connect(f"{uri_of(str(path))}?mode=ro&immutable=1", uri=True, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def examined(connection: sqlite3.Connection, path: Path, size: int) -> Examined:
    """The state of the store of `connection`, which is at `path` and has `size` bytes. Raises as `examine` does."""
    (version,) = connection.execute("pragma user_version").fetchone()
    known = migrations()[-1].number
    if version > known:
        raise StoreRefused(
            f"{path} has version {version}, but this Runward knows only {known}: install a newer one"
        )
    if not version:
        raise Damaged(f"{path} is not a Runward store")
    refuse_old(str(path), version)
    (found,) = connection.execute("pragma integrity_check(1)").fetchone()
    if found != "ok":
        raise Damaged(f"{path} is damaged: {found}")
    astray = connection.execute("pragma foreign_key_check").fetchone()
    if astray is not None:
        raise Damaged(
            f"{path} is damaged: a row of {astray[0]} refers to one of {astray[2]} that does not exist"
        )
    pruned = _pruned(connection)
    end = follow((ChainedEvent(*row) for row in connection.execute(_EVENTS)), pruned=pruned)
    if isinstance(end, BrokenChain):
        raise Damaged(f"{path}: the chain of events breaks at {end.seq} ({end.key}): {end.why}")
    end = pruned.get(end.seq + 1, end)  # the last events may have been removed
    (epoch,) = connection.execute("select epoch from daemon").fetchone()
    (sessions,) = connection.execute("select count(*) from sessions").fetchone()
    (last_at,) = connection.execute(_LAST_AT).fetchone()
    return Examined(version, epoch, end, last_at, sessions, size)


def _pruned(connection: sqlite3.Connection) -> dict[int, Head]:
    """The ends of the stretches of events that were removed, by the numbers of their first ones."""
    rows = connection.execute("select first, last, hash from absent_events")
    return {first: Head(last, digest) for first, last, digest in rows}


class BackupExists(Exception):
    """Something already has the backup's name."""


def back_up(store: Path, target: Path, *, replace: bool = False, tell: Tell = tell_nobody) -> Examined:
    """Make a sound copy of `store` at `target`, for this user only; returns what is in it.

    The copy appears whole or not at all: it is written under a temporary name next to it, examined, synced, renamed.
    Raises `BackupExists` (only without `replace`), `Damaged` if the copy isn't sound, `StoreUnreadable`,
    `sqlite3.Error` and `OSError`.
    """
    if not replace and os.path.lexists(target):
        raise BackupExists(str(target))
    with closing(open_to_read(str(store))) as source, copied(source, target, tell) as copy:
        found = examine(copy)
        if replace:
            os.rename(copy, target)
        else:
            _rename_anew(copy, target)
    sync_directory(target.parent)
    return found


def _rename_anew(copy: Path, target: Path) -> None:
    """Rename to an unused name, even if somebody creates it meanwhile. Raises `BackupExists`."""
    try:
        os.link(copy, target)
    except FileExistsError:
        raise BackupExists(str(target)) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise BackupExists(str(target)) from None
        os.rename(copy, target)
