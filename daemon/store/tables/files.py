"""The files that attempts produced, with their hashes once they are computed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import columns, row_of, rows_by_attempt, rows_of, select
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import listed
from runward.handlers.model.files import Produced

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.contracts import ProducedFiles, RecordFiles

INSERT: Final = Write(
    "insert into files (session_key, attempt, id, path, size, modified_ns, sha256, problem, hashed_at)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class HashedFile(NamedTuple):
    """The result of hashing a file. Without a `sha256` (hex) the problem says why; `changed` has both."""

    size: int
    modified_ns: int
    sha256: str | None
    problem: str | None
    hashed_at: float


class KeptFile(NamedTuple):
    """A file that the last attempt of a session produced, as it was verified; `hashed` None until it is hashed."""

    id: str
    path: str
    size: int
    modified_ns: int
    hashed: HashedFile | None


def kept_files(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, list[KeptFile]]:
    """What the last attempts of these sessions produced, by session key, in the contract's order."""
    # What was verified is an array in the order of the fields of `Produced`, as each named tuple in JSON.
    verified = {name: f"p.value ->> {place}" for place, name in enumerate(Produced._fields)}
    query = select(
        KeptFile,
        "from sessions s join attempts a on a.session_key = s.key and a.attempt = s.attempt"  # noqa: S608 # our own words
        " join json_each(a.produced) p"
        f" left join files f on f.session_key = s.key and f.attempt = s.attempt and f.id = {verified['id']}"
        " where s.key in (select value from json_each(?)) order by s.key, p.key",
        by=f"s.key, {columns(HashedFile, 'f')}",
        hashed="null",
        **{name: verified[name] for name in ("id", "path", "size", "modified_ns")},
    )
    files: dict[str, list[KeptFile]] = {}
    hash_end = 1 + len(HashedFile._fields)
    for row in connection.execute(query, (listed(keys),)):
        (kept,) = rows_of(KeptFile, [row[hash_end:]])
        if row[hash_end - 1] is not None:  # when it was hashed
            kept = kept._replace(hashed=row_of(HashedFile, row[1:hash_end]))
        files.setdefault(row[0], []).append(kept)
    return files


async def produced_files(
    store: Reader, attempts: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], ProducedFiles]:
    """What these attempts had produced when they were judged, by session key and attempt."""
    from runward.handlers.model.contracts import ProducedFiles

    query = select(
        ProducedFiles,
        "from json_each(?) asked"
        " join attempts a on a.session_key = asked.value ->> 0 and a.attempt = asked.value ->> 1"
        " join sessions s on s.key = a.session_key where a.produced is not null",
        "s",
        by="a.session_key, a.attempt",
        files="a.produced",
    )
    return rows_by_attempt(ProducedFiles, await store.read(query, (listed(attempts),)))


def _record_files(batch: Batch, job: Job, effect: RecordFiles) -> None:
    for each in effect.files:
        batch.row(INSERT, (effect.key, effect.attempt, *each, batch.now))


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.contracts import ProducedBy, RecordFiles

    return Table(
        writes=(INSERT,),
        appliers={RecordFiles: _record_files},
        answers={ProducedBy: answers_by(produced_files, lambda asked: (asked.key, asked.attempt))},
        goes_with_session=("delete from files where session_key = ?",),
    )
