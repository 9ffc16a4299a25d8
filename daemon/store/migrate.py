"""Migrations: numbered SQL files, forward only, each in a transaction, after a backup."""

import os
import re
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Final

from runward.daemon.disk.copying import copied
from runward.daemon.disk.durable import sync_directory
from runward.daemon.store.reading import StoreRefused, refuse_old, uri_of

KEPT: Final = 2
"""How many backups from before upgrades are kept: those of the last two."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: `number` is the `user_version` that it leads to."""

    number: int
    name: str
    sql: str


def migrations() -> tuple[Migration, ...]:
    """This program's migrations, in order."""
    found = []
    for entry in resources.files("runward.daemon.store").joinpath("migrations").iterdir():
        if entry.name.endswith(".sql"):
            found.append(Migration(int(entry.name[:4]), entry.name, entry.read_text()))
    return tuple(sorted(found, key=lambda each: each.number))


def make_empty(connection: sqlite3.Connection, version: int | None = None) -> None:
    """Make an empty database a store of this version, or of the latest, in which nothing happened yet, in one transaction."""
    steps = tuple(step for step in migrations() if version is None or step.number <= version)
    with closing(sqlite3.connect(":memory:")) as made:
        made.deserialize(_empty(steps))
        made.backup(connection)


@lru_cache(1)
def _empty(steps: tuple[Migration, ...]) -> bytes:
    """The bytes of an empty store. Copying them takes a tenth of the time of the migrations."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.execute("pragma auto_vacuum = incremental")
        for step in steps:
            made.executescript(f"{step.sql}\npragma user_version = {step.number};")
        return made.serialize()


def migrate(path: Path, *, keep: bool = True) -> int:
    """Bring the store at `path` to this program's schema; returns its version.

    Only this user can read it afterwards. The earlier store is kept next to it as
    `runward.before-upgrade-<version>-<UTC>.db`, unless `keep` is false. Raises `StoreRefused`, having touched nothing.
    Raises `OSError` and `sqlite3.Error` if the file is not a store or the disk refuses.
    """
    steps = migrations()
    version = _version(path)
    if version > steps[-1].number:
        raise StoreRefused(
            f"{path} has version {version}, this Runward knows {steps[-1].number}: install the newer one"
        )
    refuse_old(str(path), version)
    _make_private(path)
    due = [step for step in steps if step.number > version]
    if not due:
        return version
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        if is_new := not connection.execute("select 1 from sqlite_schema").fetchall():
            make_empty(connection)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        if version and keep:
            _keep(connection, path, version)
        for step in () if is_new else due:
            connection.executescript(
                f"begin immediate;\n{step.sql}\npragma user_version = {step.number};\ncommit;"
            )
        return steps[-1].number
    finally:
        connection.close()


def _make_private(path: Path) -> None:
    """Keep other users out before SQLite opens the store: the files that it puts next to it get the store's mode."""
    if not path.exists():
        path.touch(mode=0o600)
    for end in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            mode = os.stat(f"{path}{end}").st_mode
            os.chmod(f"{path}{end}", mode & 0o700)  # a store that its owner made read-only stays so


def _version(path: Path) -> int:
    """The version of the store at `path`; 0 if there is none. Opened read-only: a newer store must stay as it is."""
    if not path.exists() or path.stat().st_size == 0:
        return 0
    with closing(sqlite3.connect(f"{uri_of(str(path))}?mode=ro", uri=True)) as connection:
        version: int = connection.execute("pragma user_version").fetchone()[0]
    return version


def _keep(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Keep a copy of the store before an upgrade. The oldest of the earlier copies are deleted."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = path.with_name(f"{path.stem}.before-upgrade-{version:04d}-{moment}.db")
    with copied(connection, target) as copy:
        os.rename(copy, target)
    sync_directory(path.parent)
    ours = re.compile(re.escape(path.stem) + r"\.before-upgrade-\d{4}-(\d{8}T\d{6}Z)\.db")
    dated = sorted((found[1], name) for name in os.listdir(path.parent) if (found := ours.fullmatch(name)))
    for _, name in dated[:-KEPT]:
        path.with_name(name).unlink()
