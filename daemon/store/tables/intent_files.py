"""How far the intents of each run were read. A run that is over still needs a last reading.

A row stays when its session is pruned: without it, a later attempt would be read from the first line again, and so would
a copy of the run's directory. A run is known by the names that it ever had in `intent_runs`; its place says nothing.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from runward.daemon.rundir.intents import IntentCursor
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import columns, elsewhere, rows_by_key, rows_of, select, value_of
from runward.daemon.store.tables.prunings import PROGRESS
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import Reader, as_int, listed
from runward.handlers.layouts.native import RunName
from runward.handlers.model.exchange import LANES, ActionsOf, ActionsTaken, CountIntent

OWE: Final = Write(
    'insert into intent_files (session_key, directory, attempt, "offset", line, before, told, state)'
    " values (?, ?, ?, 0, 0, '', 0, 'over') on conflict (session_key) do update set attempt = excluded.attempt,"
    " state = iif(intent_files.problem is null, 'over', intent_files.state)"
)
"""A run is over, and there is a file of intents."""

READ: Final = Write(
    'insert into intent_files (session_key, directory, attempt, identity, "offset", line, before, told, state, problem,'
    " run) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, iif(?8, 'read', 'open'), ?9, ?10)"
    ' on conflict (session_key) do update set identity = excluded.identity, "offset" = excluded."offset",'
    " line = excluded.line, before = excluded.before, state = iif(?8, 'read', intent_files.state),"
    " problem = excluded.problem, attempt = excluded.attempt, run = coalesce(?10, intent_files.run)"
)
"""Lines were read. The file of a run that is over stays in that state until all of it is read."""

TOLD: Final = Write("update intent_files set told = told + ? where session_key = ?")

NAME: Final = Write(
    "insert or ignore into intent_runs (session_id, started_at, session_key) values (?, ?, ?)", exact=False
)
"""The run of a session has this name now."""


class IntentFile(NamedTuple):
    """A file of intents as the store knows it. `told` lines have their result; `state` is open, over or read.

    The cursor has no identity until the file was read. `run` is the session where the run of a copied directory was first
    seen.
    """

    session_key: str
    directory: str
    attempt: int
    cursor: IntentCursor
    told: int
    state: str
    problem: str | None
    run: str | None


async def intent_file(store: Reader, session_key: str) -> IntentFile | None:
    """What is known of the intents of a session."""
    return next(iter(await _chosen(store, "f.session_key = ?", session_key)), None)


async def owed(store: Reader) -> list[IntentFile]:
    """The files that are not fully read yet."""
    return await _chosen(store, "f.state <> 'read'")


async def _chosen(store: Reader, which: str, *values: str) -> list[IntentFile]:
    query = select(
        IntentFile,
        f"from {PROGRESS} f where {which}",
        "f",
        by=columns(IntentCursor, "f", offset='f."offset"'),
        cursor="null",
        told="f.done",
    )
    rows, width = await store.read(query, values), len(IntentCursor._fields)
    cursors = rows_of(IntentCursor, (row[:width] for row in rows))
    files = rows_of(IntentFile, (row[width:] for row in rows), cursor=elsewhere)
    return [file._replace(cursor=cursor) for file, cursor in zip(files, cursors, strict=True)]


async def first_place(store: Reader, session_key: str, names: Iterable[RunName]) -> str | None:
    """The session where a run with one of these names was first seen, if that is another one.

    If several runs claimed a name, it is the run whose file was read furthest, so no line is read twice.
    """
    places: list[tuple[int, str]] = []
    for name in names:
        rows = await store.read(
            "select f.line, coalesce(f.run, f.session_key) from intent_runs r join intent_files f using (session_key)"
            " where r.session_id = ?2 and r.started_at = ?3 and coalesce(f.run, f.session_key) <> ?1",
            (session_key, *name),
        )
        places += rows_of(tuple[int, str], rows)
    return max(places)[1] if places else None


async def is_named(store: Reader, session_key: str) -> bool:
    """Whether the run of a session ever had a name."""
    return bool(await store.read("select 1 from intent_runs where session_key = ? limit 1", (session_key,)))


async def is_known(store: Reader, name: RunName) -> bool:
    """Whether a run ever had this name."""
    sql = "select 1 from intent_runs where session_id = ? and started_at = ? limit 1"
    return bool(await store.read(sql, tuple(name)))


async def lines_known(store: Reader, run: str) -> int:
    """How many lines of a run were read, in any of its places."""
    rows = await store.read(
        "select max(line) from intent_files where session_key = ?1 or run = ?1",
        (run,),
    )
    return value_of(int, rows[0]) or 0


# A run whose file is not read to its end waits for one intent at least: nobody knows yet how many follow.
async def _taken(store: Reader, keys: Iterable[str]) -> dict[str, ActionsTaken]:
    rows = await store.read(
        "select f.session_key, f.done, case"  # noqa: S608 # our own words
        " when exists (select 1 from jobs j where j.state in ('waiting', 'held') and j.state = 'held' and j.handler = 'exchange/act'"
        "  and j.lane = ? || coalesce(s.agent, '?' || s.key)) then 0"
        " when f.state = 'read' or f.problem is not null then max(0, f.line - f.done)"
        " else max(1, f.line - f.done) end"
        f" from {PROGRESS} f join sessions s on s.key = f.session_key"
        " where f.session_key in (select value from json_each(?))",
        (LANES, listed(keys)),
    )
    return rows_by_key(ActionsTaken, rows)


def _count(batch: Batch, job: Job, effect: CountIntent) -> None:
    # The actions of a run are decided next to one another, so one row counts most of them.
    last = batch.last(TOLD)
    if last is not None and last[1] == effect.session_key:
        batch.rows[TOLD][-1] = (as_int(last[0]) + 1, effect.session_key)
    else:
        batch.row(TOLD, (1, effect.session_key))


INTENT_FILES: Final = Table(
    writes=(OWE, READ, NAME, TOLD),
    appliers={CountIntent: _count},
    answers={ActionsOf: answers_by(_taken, lambda asked: asked.session_key, ActionsTaken())},
    moved=("update intent_files set directory = moved(directory)",),
)
