"""Migrations: numbered SQL files, forward only, each in a transaction, with a backup before."""

import sqlite3
from dataclasses import dataclass
from importlib import resources
from pathlib import Path


class StoreTooNew(Exception):
    """The store was written by a newer Runward; this one must not touch it."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: `number` is the `user_version` that it leads to."""

    number: int
    name: str
    sql: str


def migrations() -> tuple[Migration, ...]:
    """All migrations of this program, in order."""
    found = []
    for entry in resources.files("runward.daemon.store").joinpath("migrations").iterdir():
        if entry.name.endswith(".sql"):
            found.append(Migration(int(entry.name[:4]), entry.name, entry.read_text()))
    return tuple(sorted(found, key=lambda each: each.number))


def migrate(path: Path) -> int:
    """Bring the store at `path` to this program's schema; returns its version.

    Raises `StoreTooNew`, and `sqlite3.Error` where the file is no store or the disk refuses.
    """
    steps = migrations()
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        version: int = connection.execute("pragma user_version").fetchone()[0]
        if version > steps[-1].number:
            raise StoreTooNew(
                f"{path} has version {version}, this Runward knows {steps[-1].number}: install the newer one"
            )
        due = [step for step in steps if step.number > version]
        if not due:
            return version
        if version == 0:
            connection.execute("pragma auto_vacuum = incremental")
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        if version:
            _back_up(connection, path.with_name(f"{path.stem}.before-{due[0].number:04d}.db"))
        for step in due:
            connection.executescript(
                f"begin immediate;\n{step.sql}\npragma user_version = {step.number};\ncommit;"
            )
        return steps[-1].number
    finally:
        connection.close()


def _back_up(connection: sqlite3.Connection, path: Path) -> None:
    with sqlite3.connect(path) as copy:
        connection.backup(copy)
    copy.close()
    path.chmod(0o600)
