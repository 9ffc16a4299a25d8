"""How far the intents of each run were read. A run that is over still needs a last reading.

A row stays when its session is pruned: without it, a later attempt would be read from the first line again, and so would
a copy of the run's directory. A run is known by its id and its start as they were first seen; its place says nothing.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.ports.intents import IntentCursor
from runward.daemon.store.reading_pruning import PROGRESS
from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.values import as_float, as_int, listed
from runward.handlers.exchange.effects import CountIntent
from runward.handlers.exchange.events import LANES
from runward.handlers.exchange.facts import ActionsOf, ActionsTaken

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch
    from runward.daemon.store.tables.jobs import Job

OWE: Final = Write(
    'insert into intent_files (session_key, directory, attempt, "offset", line, before, told, state)'
    " values (?, ?, ?, 0, 0, '', 0, 'over') on conflict (session_key) do update set attempt = excluded.attempt,"
    " state = iif(intent_files.problem is null, 'over', intent_files.state)"
)
"""A run is over, and there is a file of intents."""

READ: Final = Write(
    'insert into intent_files (session_key, directory, attempt, identity, "offset", line, before, told, state, problem,'
    " session_id, started_at, run) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, iif(?8, 'read', 'open'), ?9, ?10, ?11, ?12)"
    ' on conflict (session_key) do update set identity = excluded.identity, "offset" = excluded."offset",'
    " line = excluded.line, before = excluded.before, state = iif(?8, 'read', intent_files.state),"
    " problem = excluded.problem, attempt = excluded.attempt, session_id = coalesce(?10, intent_files.session_id),"
    " started_at = coalesce(?11, intent_files.started_at), run = coalesce(?12, intent_files.run)"
)
"""Lines were read. The file of a run that is over stays in that state until all of it is read."""

TOLD: Final = Write("update intent_files set told = told + 1 where session_key = ?")


class SeenRun(NamedTuple):
    """What a run is known by: its id and the start of its last attempt (Unix seconds), as they were first seen."""

    session_id: str
    started_at: float


class IntentFile(NamedTuple):
    """A file of intents as the store knows it. `told` lines have their result; `state` is open, over or read.

    `seen` is None until a line was read. `run` is the session where the run of a copied directory was first seen.
    """

    session_key: str
    directory: str
    attempt: int
    cursor: IntentCursor
    told: int
    state: str
    problem: str | None
    seen: SeenRun | None
    run: str | None


_SELECT: Final = (
    'select f.session_key, f.directory, f.attempt, f.identity, f."offset", f.line, f.before,'  # noqa: S608 # our own words
    f" f.done, f.state, f.problem, f.session_id, f.started_at, f.run from {PROGRESS} f"
)


async def intent_file(store: Store, session_key: str) -> IntentFile | None:
    """What is known of the intents of a session."""
    rows = await store.read(f"{_SELECT} where f.session_key = ?", (session_key,))
    return _file(rows[0]) if rows else None


async def owed(store: Store) -> list[IntentFile]:
    """The files that are not fully read yet."""
    return [_file(row) for row in await store.read(f"{_SELECT} where f.state <> 'read'")]


def _file(row: tuple[object, ...]) -> IntentFile:
    identity = None if row[3] is None else str(row[3])
    cursor = IntentCursor(identity, as_int(row[4]), as_int(row[5]), str(row[6]))
    problem = None if row[9] is None else str(row[9])
    seen = None if row[11] is None else SeenRun(str(row[10]), as_float(row[11]))
    run = None if row[12] is None else str(row[12])
    told, state = as_int(row[7]), str(row[8])
    return IntentFile(str(row[0]), str(row[1]), as_int(row[2]), cursor, told, state, problem, seen, run)


async def first_place(store: Store, session_key: str, seen: SeenRun, identity: str | None) -> str | None:
    """The session where the same run was first seen, if that is another one.

    A run that gives itself no id has the name of its directory, so a file that was moved is also known by what it is.
    """
    rows = await store.read(
        "select coalesce(f.run, f.session_key) from intent_files f where f.session_key <> ?1"
        " and (f.session_id = ?3 or f.identity = ?4) and (f.started_at = ?2 or exists (select 1 from attempts a"
        "  where a.session_key = f.session_key and a.started_at = ?2)) order by f.rowid limit 1",
        (session_key, seen.started_at, seen.session_id, identity),
    )
    return str(rows[0][0]) if rows else None


async def start_of(store: Store, session_key: str, attempt: int) -> float | None:
    """When an attempt of a session began, as it says (Unix seconds)."""
    rows = await store.read(
        "select started_at from attempts where session_key = ? and attempt = ?", (session_key, attempt)
    )
    return as_float(rows[0][0]) if rows else None


async def lines_known(store: Store, run: str) -> int:
    """How many lines of a run were read, in any of its places."""
    rows = await store.read(
        "select max(line) from intent_files where session_key = ?1 or run = ?1",
        (run,),
    )
    return 0 if rows[0][0] is None else as_int(rows[0][0])


async def _taken(store: Store, keys: Iterable[str]) -> dict[str, ActionsTaken]:
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
    return {str(key): ActionsTaken(as_int(told), as_int(waiting)) for key, told, waiting in rows}


def _count(batch: "Batch", job: "Job", effect: CountIntent) -> None:
    batch.row(TOLD, (effect.session_key,))


INTENT_FILES: Final = Table(
    writes=(OWE, READ, TOLD),
    appliers={CountIntent: _count},
    answers={ActionsOf: answers_by(_taken, lambda asked: asked.session_key, ActionsTaken())},
)
