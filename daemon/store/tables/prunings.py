"""People's requests to prune: what would be deleted, the progress, and what remains of a deleted session."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import row_of, rows_of, select
from runward.daemon.store.tables.table import Table
from runward.daemon.store.transaction import Statement

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.requests import PruneSessions


INSERT: Final = Write("insert into prunings (event, before, said_by) values (?, ?, ?)")

_COUNT: Final = "update prunings set sessions = sessions + ? where event = ?"

_END: Final = "update prunings set ended_at = ? where event = ? and ended_at is null"


class Pruning(NamedTuple):
    """A request to prune sessions that ended before this moment (Unix seconds)."""

    event: int
    before: float


async def owed_prunings(store: Reader) -> list[Pruning]:
    """The requests that aren't carried out yet, in order."""
    which = "from prunings where ended_at is null order by event"
    return rows_of(Pruning, await store.read(select(Pruning, which)))


def pruning_ended(event: int, now: float) -> Statement:
    """Mark it as done."""
    return Statement(_END, [(now, event)])


def sessions_counted(event: int, sessions: int) -> Statement:
    """Add this many sessions to the request's progress."""
    return Statement(_COUNT, [(sessions, event)])


def _prune(batch: Batch, job: Job, effect: PruneSessions) -> None:
    batch.row(INSERT, (job.seq, effect.before, effect.said_by))


ASKED: Final = "substr(e.key, 1, length(e.lane) + 1) <> e.lane || '#'"
"""Whether an event `e` came through the inbox: its key doesn't begin with its lane. Written as in the index on
lanes."""

ASKED_LATELY: Final = 86_400.0
"""Seconds for which a request is remembered in any case, because the same file may come again."""

PROGRESS: Final = (
    "(select i.*, iif(i.run is null and not exists (select 1 from intent_files c where c.run = i.session_key), i.told,"
    " (select count(*) from actions a where a.key > coalesce(i.run, i.session_key) || '#intent/'"
    " and a.key < coalesce(i.run, i.session_key) || '#intent0' and a.line <= i.line)) as done from intent_files i)"
)
"""The files, with how many of their lines have their result: a run in several places may have it from any of them."""

# Every way in which something may still refer to a session is named here. One that is forgotten would lose what is
# owed: a new table with work that is open needs its condition.
NOTHING_OWED: Final = (
    "s.status <> 'running'"  # noqa: S608 # our own words
    " and not exists (select 1 from uncompared u where u.session_key = s.key)"
    " and not exists (select 1 from jobs j where j.lane = s.key and j.state in ('waiting', 'held'))"
    " and not exists (select 1 from jobs j where j.state = 'running' and j.lane = s.key)"
    " and not exists (select 1 from cursors c where c.phase = 'open'"
    "  and c.key in (s.key, substr(s.key, instr(s.key, ':') + 1)))"
    " and not exists (select 1 from cancellations x where x.session_key = s.key and x.carried_out_at is null)"
    " and not exists (select 1 from starts x where x.session_key = s.key and x.state = 'owed')"
    f" and not exists (select 1 from {PROGRESS} x where x.session_key = s.key and (x.state <> 'read' or x.done < x.line))"
    " and not exists (select 1 from receipts x where x.session_key = s.key and x.placed_at is null)"
    " and not exists (select 1 from starts x join events e on e.seq = x.event where x.state = 'owed' and e.lane = s.key)"
    " and not exists (select 1 from chain_steps x join chain_runs r on r.id = x.run where x.session_key = s.key"
    "  and r.status in ('running', 'waiting_approval'))"
    " and not exists (select 1 from events e where e.key > s.key || '#' and e.key < s.key || '$' and e.lane = s.key and ("
    "  exists (select 1 from jobs j where j.id between 32 * e.seq and 32 * e.seq + 31"
    "   and j.state not in ('done', 'discarded'))"
    "  or exists (select 1 from journal_lines l where l.id between 256 * e.seq and 256 * e.seq + 255"
    '   and l."offset" is null and l.why is null)))'
    f" and not exists (select 1 from events e where e.lane = s.key and {ASKED}"
    "  and e.recorded_at >= ?2)"
    " and not exists (select 1 from starts x join events e on e.seq = x.event"
    "  where x.session_key = s.key and e.recorded_at >= ?2)"
)
"""Whether a session `s` is over, without open work, and without requests since `?2` (Unix seconds). """

_PRUNABLE: Final = (
    f"select count(*), coalesce(sum({NOTHING_OWED}), 0) from sessions s"  # noqa: S608 # our own words
    " where s.started_at < ?1 and s.finished_at < ?1"
)


class Prunable(NamedTuple):
    """How many sessions would be pruned, and how many are as old but still have open work."""

    sessions: int
    owed: int


class PruningRow(NamedTuple):
    """The progress of a request; `ended_at` (Unix seconds) is None until it is done."""

    sessions: int
    ended_at: float | None


class Tombstone(NamedTuple):
    """What remains of a session whose record was pruned. Times are Unix seconds."""

    session_key: str
    session_id: str
    status: str
    attempt: int
    started_at: float
    finished_at: float
    event: int
    hash: str
    pruned_at: float


def prunable(connection: sqlite3.Connection, before: float, now: float) -> Prunable:
    """How much would be pruned of sessions that ended before a moment (both Unix seconds)."""
    old, free = connection.execute(_PRUNABLE, (before, now - ASKED_LATELY)).fetchone()
    return Prunable(free, old - free)


def pruning(connection: sqlite3.Connection, request: str) -> PruningRow | None:
    """The progress of this request; None if it isn't decided yet, or was refused."""
    row = connection.execute(
        select(PruningRow, "from events e join prunings p on p.event = e.seq where e.key = ?", "p"),
        (request,),
    ).fetchone()
    return row_of(PruningRow, row)


def tombstone(connection: sqlite3.Connection, text: str) -> Tombstone | None:
    """What remains of the session whose key or id is `text`."""
    row = connection.execute(
        select(
            Tombstone,
            "from tombstones where session_key = ?1 or session_id = ?1 order by session_key limit 1",
        ),
        (text,),
    ).fetchone()
    return row_of(Tombstone, row)


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.requests import PruneSessions

    return Table(
        writes=(INSERT,),
        appliers={PruneSessions: _prune},
        goes_with_event=("delete from prunings where event = ?",),
    )
