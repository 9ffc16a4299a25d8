"""Copying a database in its state at one moment into one file, while others keep writing to it.

This is SQLite's own way of copying, in slices, under one read transaction. It sees the database as it was when the copy
began. It never restarts because of a commit, and delays nothing, because in WAL mode readers don't block writers.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

SLICE: Final = 256
"""Pages that are copied at a time: 1 MiB."""

SYNCED: Final = 16 * SLICE
"""Pages after which what was copied is synced: one sync of all of it at the end would keep concurrent commits waiting."""

Tell = Callable[[int, int], None]
"""Called with the number of copied pages and of all pages."""


def tell_nobody(done: int, of: int) -> None:
    """Does nothing: for copies that nobody waits for."""


@contextmanager
def copied(source: sqlite3.Connection, target: Path, tell: Tell = tell_nobody) -> Iterator[Path]:
    """A copy of what `source` sees now, whole and synced, under a temporary name next to `target`, to be renamed.

    It is for this user only. Whatever still has that name afterwards is removed. Raises `sqlite3.Error` and `OSError`.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        _copy(source, temporary, descriptor, tell)
        yield temporary
    finally:
        # Not earlier: closing any descriptor of a file releases SQLite's own locks on it.
        os.close(descriptor)
        temporary.unlink(missing_ok=True)


def _copy(source: sqlite3.Connection, target: Path, descriptor: int, tell: Tell) -> None:
    synced = 0

    def go_on(status: int, left: int, of: int) -> None:
        nonlocal synced
        done = of - left
        if done - synced >= SYNCED:
            os.fdatasync(descriptor)
            synced = done
        tell(done, of)

    with closing(sqlite3.connect(target, isolation_level=None)) as made:
        made.execute("pragma synchronous = off")  # synced here, and nobody sees it before
        made.execute("pragma journal_mode = off")
        source.execute("begin")
        # From here on it sees this very moment.
        source.execute("select count(*) from sqlite_master").fetchone()
        try:
            source.backup(made, pages=SLICE, progress=go_on)
        finally:
            source.execute("rollback")
        made.execute("pragma journal_mode = delete")  # the header said WAL, which would need three files
    os.fsync(descriptor)
