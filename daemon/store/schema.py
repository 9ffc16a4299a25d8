"""The schema of the store: the migrations that bring it up to date, and whether a store is sound."""

import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from runward.daemon.disk.copying import copied
from runward.daemon.disk.durable import sync_directory
from runward.daemon.store.reading import STORE, StoreRefused, refuse_old, uri_of
from runward.daemon.store.transaction import StoreMalformed

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
    known = []
    for entry in Path(__file__).with_name("migrations").iterdir():
        if entry.name.endswith(".sql"):
            known.append(Migration(int(entry.name[:4]), entry.name, entry.read_text()))
    return tuple(sorted(known, key=lambda each: each.number))


def make_empty(connection: sqlite3.Connection, version: int | None = None) -> None:
    """Make an empty database a store of this version, or of the latest, in which nothing happened yet, in one transaction."""
    steps = tuple(step for step in migrations() if version is None or step.number <= version)
    with closing(sqlite3.connect(":memory:")) as made:
        made.deserialize(_empty(steps))
        made.backup(connection)


def forget_empty() -> None:
    """Free the bytes of an empty store, 0.7 MB. They are made again when they are needed."""
    _empty.cache_clear()


@lru_cache(1)
def _empty(steps: tuple[Migration, ...]) -> bytes:
    """The bytes of an empty store. Copying them takes a tenth of the time of the migrations."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        # It must come before the first table: later it would take a rewrite of the whole file.
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
        # Each step is one transaction, and its number is part of it: a program that is killed in between goes on from
        # there.
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
    dated = sorted((match[1], name) for name in os.listdir(path.parent) if (match := ours.fullmatch(name)))
    for _, name in dated[:-KEPT]:
        path.with_name(name).unlink()


_ROWS: Final = "select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_stat%'"
_SHOWN: Final = 3
KINDS: Final = ("table", "index", "trigger", "view")
ACTING: Final = ("trigger", "view")
"""Schema objects that change the record without a statement of Runward's, or change how it reads."""

Schema: TypeAlias = frozenset[tuple[str, str, str, str | None]]
"""What `sqlite_schema` says: each row's type, name, table and text."""


def difference(connection: sqlite3.Connection, version: int, kinds: Sequence[str] = KINDS) -> str | None:
    """How the store's schema differs from that of `version`; None if it doesn't. Raises `sqlite3.Error`."""
    there_now, made = (
        frozenset(row for row in rows if row[0] in kinds)
        for rows in (connection.execute(_ROWS), _made(version))
    )
    there, missing = _names(there_now - made), _names(made - there_now)
    changed = sorted(there & missing)
    # A row that differs is there in both, under the same name: it is neither missing nor somebody else's.
    differences = [
        *(f"{name} differs from what Runward creates" for name in changed),
        *(f"{name} is not Runward's" for name in sorted(there - missing)),
        *(f"{name} is missing" for name in sorted(missing - there)),
    ]
    more = [f"and {len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
    return ", ".join([*differences[:_SHOWN], *more]) or None


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
    return Soundness(
        version=version,
        known=migrations()[-1].number,
        page_size=page_size,
        pages=pages,
        free_pages=free,
        journal_mode=str(mode),
        log_bytes=log,
    )


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
        # SQLite has no limit of time of its own: it asks this after so many steps, and stops when the answer is yes.
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
