"""Our lines in the journals: open until they have a place, or a reason why they will never be written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import rows_of, select, values_of
from runward.daemon.store.tables import problems
from runward.daemon.store.tables.table import Table
from runward.daemon.store.transaction import as_int, listed

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.journal import AppendLines, RepairJournal

OWE: Final = Write("insert into journal_lines (id, directory, name, live, content) values (?, ?, ?, ?, ?)")

OWE_AGAIN: Final = Write(
    'update journal_lines set "offset" = null, places = null, why = null, live = ?'
    ' where id = ? and "offset" is not null'
)

STANDS: Final = (
    'update journal_lines set "offset" = ?, places = ?, why = ?'
    ' where id = ? and "offset" is null and why is null'
)

TAMPERED: Final = "find out who did; `runward why` with the session's id tells what was found and when"

LINES_A_JOB: Final = 8
"""The id of a line is this times its job's id, plus its place among the job's lines: unique by construction."""


class OwedLine(NamedTuple):
    """Bytes to be written to a journal. `check`: they may be there already."""

    id: int
    seq: int
    key: str
    directory: str
    name: str
    content: bytes
    live: bool
    check: bool = False

    @property
    def journal(self) -> tuple[str, str]:
        return self.directory, self.name


class LinePlace(NamedTuple):
    """Where a line is; without an offset it will never be written, and this says why.

    `places` is JSON text, `[[offset, length], …]`, if the line isn't in one piece.
    """

    offset: int | None
    places: str | None
    why: str | None
    id: int


async def owed(store: Reader, directories: Iterable[str] | None = None) -> list[OwedLine]:
    """The open lines of the journals in these directories, or of all. They may have been written already.

    Each is searched for in its whole journal. The positions of older lines don't help, because the run's directory may
    have been recreated since.
    """
    rows = await store.read(
        select(
            OwedLine,
            "from outbox o join events e on e.seq = o.event"
            " where ?1 is null or o.directory in (select value from json_each(?1)) order by o.id",
            "o",
            seq="o.event",
            key="e.lane",
            check="1",
        ),
        (None if directories is None else listed(directories),),
    )
    return rows_of(OwedLine, rows)


def owed_of_session(connection: sqlite3.Connection, key: str, name: str) -> list[bytes]:
    """What is still open for the session's journal `name`: not written, or written and not synced yet."""
    rows = connection.execute(
        "select o.content from outbox o join events e on e.seq = o.event"
        " where e.lane = ? and o.name = ? order by o.id",
        (key, name),
    )
    return values_of(bytes, rows)


async def still_owed(store: Reader, numbers: Iterable[int]) -> frozenset[int]:
    """The rows among these outbox rows that are not done yet."""
    rows = await store.read(
        "select id from outbox where id in (select value from json_each(?))", (listed(numbers),)
    )
    return frozenset(values_of(int, rows))


def lines_decided(decided: Iterable[tuple[Job, AppendLines]]) -> Iterator[OwedLine]:
    """The lines that these jobs decided on. Each job appends at most `LINES_A_JOB` times."""
    # The same numbers as the rows of the outbox get: a line that was written is marked by its number alone.
    job_id, number = -1, 0
    for job, effect in decided:
        job_id, number = job.id, number + 1 if job.id == job_id else job.id * LINES_A_JOB
        yield OwedLine(
            id=number,
            seq=job.seq,
            key=effect.key,
            directory=effect.directory,
            name=effect.name,
            content=effect.content,
            live=effect.live,
        )


def _append(batch: Batch, job: Job, effect: AppendLines) -> None:
    # The number follows from the job's, and from the rows of this batch: so a line has it before it is stored, and the
    # outbox can write the line and mark it by this number.
    first, last = job.id * LINES_A_JOB, batch.last(OWE)
    is_further = last is not None and as_int(last[0]) // LINES_A_JOB == job.id
    number = as_int(last[0]) + 1 if last is not None and is_further else first
    assert number // LINES_A_JOB == job.id, f"a job appends at most {LINES_A_JOB} times"
    batch.row(OWE, (number, effect.directory, effect.name, int(effect.live), effect.content))


def _repair(batch: Batch, job: Job, effect: RepairJournal) -> None:
    for row in effect.rows:
        batch.row(OWE_AGAIN, (int(effect.live), row))
    if effect.problem is not None:
        path = f"{effect.directory}/{effect.name}"
        batch.row(problems.DELETE, (path,))
        batch.row(problems.INSERT, (path, None, effect.problem, TAMPERED, batch.now))


class LineRow(NamedTuple):
    """Lines for a journal that an event led to: done if they are at `offset`, else why not."""

    event: int
    name: str
    state: str
    offset: int | None
    length: int
    why: str | None


def lines_of(connection: sqlite3.Connection, key: str) -> list[LineRow]:
    """The lines for the journals of a session, in order."""
    rows = connection.execute(
        select(
            LineRow,
            "from events e cross join journal_lines l on l.id between 256 * e.seq and 256 * e.seq + 255"
            " where e.key > ?1 || '#' and e.key < ?1 || '$' and e.lane = ?1 order by l.id",
            "l",
            state="case when l.\"offset\" is not null then 'done' when l.why is not null then 'discarded' else 'owed' end",
            offset='l."offset"',
            length="coalesce(length(l.content), 0)",
        ),
        (key,),
    )
    return rows_of(LineRow, rows)


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.journal import AppendLines, RepairJournal

    return Table(
        writes=(OWE, OWE_AGAIN),
        appliers={AppendLines: _append, RepairJournal: _repair},
        goes_with_event=(
            "delete from journal_lines where id between 256 * ?1 and 256 * ?1 + 255",
            "delete from adopted_lines where id between 256 * ?1 and 256 * ?1 + 255",
        ),
        moved=("update journal_lines set directory = moved(directory) where directory glob '/*'",),
    )
