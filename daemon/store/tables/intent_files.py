"""How far the intents of each run were read. A run that is over still needs a last reading.

A row stays when its session is pruned: without it, a later attempt would be read from the first line again.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.ports.intents import IntentCursor
from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.values import as_int, listed
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
    'insert into intent_files (session_key, directory, attempt, identity, "offset", line, before, told, state, problem)'
    " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, iif(?8, 'read', 'open'), ?9) on conflict (session_key) do update"
    ' set identity = excluded.identity, "offset" = excluded."offset", line = excluded.line, before = excluded.before,'
    " state = iif(?8, 'read', intent_files.state), problem = excluded.problem"
)
"""Lines were read. The file of a run that is over stays in that state until all of it is read."""

TOLD: Final = Write("update intent_files set told = told + 1 where session_key = ?")


class IntentFile(NamedTuple):
    """A file of intents as the store knows it. `told` lines have their result; `state` is open, over or read."""

    session_key: str
    directory: str
    attempt: int
    cursor: IntentCursor
    told: int
    state: str
    problem: str | None


_SELECT: Final = 'select session_key, directory, attempt, identity, "offset", line, before, told, state, problem from intent_files'


async def intent_file(store: Store, session_key: str) -> IntentFile | None:
    """What is known of the intents of a session."""
    rows = await store.read(f"{_SELECT} where session_key = ?", (session_key,))
    return _file(rows[0]) if rows else None


async def owed(store: Store) -> list[IntentFile]:
    """The files that are not fully read yet."""
    return [_file(row) for row in await store.read(f"{_SELECT} where state <> 'read'")]


def _file(row: tuple[object, ...]) -> IntentFile:
    identity = None if row[3] is None else str(row[3])
    cursor = IntentCursor(identity, as_int(row[4]), as_int(row[5]), str(row[6]))
    problem = None if row[9] is None else str(row[9])
    return IntentFile(str(row[0]), str(row[1]), as_int(row[2]), cursor, as_int(row[7]), str(row[8]), problem)


async def _taken(store: Store, keys: Iterable[str]) -> dict[str, ActionsTaken]:
    rows = await store.read(
        "select f.session_key, f.told, case"
        " when exists (select 1 from jobs j where j.state in ('waiting', 'held') and j.state = 'held' and j.handler = 'exchange/act'"
        "  and j.lane = ? || coalesce(s.agent, '?' || s.key)) then 0"
        " when f.state = 'read' or f.problem is not null then max(0, f.line - f.told)"
        " else max(1, f.line - f.told) end"
        " from intent_files f join sessions s on s.key = f.session_key"
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
