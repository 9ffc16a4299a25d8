"""SQLite: its version, and that its log works where the store is."""

import sqlite3
from collections.abc import Iterator
from typing import Final

from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.store.soundness import can_write_ahead

OLDEST: Final = (3, 37, 0)
"""The first with STRICT tables."""

WAL_RESET_FIXED: Final = ((3, 44, 6), (3, 45, 0)), ((3, 50, 7), (3, 51, 0)), ((3, 51, 3), (4, 0, 0))
"""The versions, from and up to, in which a checkpoint and a commit at the same instant can't damage a database.

https://sqlite.org/wal.html#walresetbug
"""


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """A database is made next to the store, and read while it is written."""
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        yield Finding("failed", f"SQLite is {version}", f"use a Python with SQLite {wanted} or newer")
        return
    with installation.scratch() as scratch:
        try:
            works = can_write_ahead(scratch / "store.db")
        except sqlite3.Error as error:
            yield Finding("failed", f"SQLite {version} can't write in {scratch.parent}: {error}", _FIX)
            return
        if works:
            yield Finding(
                "ok", f"SQLite {version}: a store in {scratch.parent} can be read while it is being written"
            )
            yield from _of_version(sqlite3.sqlite_version_info)
        else:
            yield Finding("failed", f"SQLite {version} can't have a log in {scratch.parent}", _FIX)


def _of_version(version: tuple[int, ...]) -> Iterator[Finding]:
    """The one fault of SQLite that is known to concern a store."""
    if not any(first <= version < beyond for first, beyond in WAL_RESET_FIXED):
        yield Finding(
            "ok", "this SQLite has the WAL-reset bug; the daemon starts no checkpoint that could hit it"
        )


_FIX: Final = "put state_dir on a local file system with enough space, and check its permissions"
