"""Pruning old chain runs, as statements: with their steps, invocations, firings and approvals.

A chain run is deleted once it is over, old enough, and has no session left. An unfinished one keeps its sessions
(`reading_pruning.py`).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.daemon.store.reading_pruning import ASKED_LATELY
from runward.daemon.store.store import Store
from runward.daemon.store.tables import all as tables
from runward.daemon.store.transaction import Row, Statement
from runward.daemon.store.values import as_int, listed

_CANDIDATES: Final = (
    "select r.id, r.updated_at < ?2 and r.status not in ('running', 'waiting_approval')"
    " and not exists (select 1 from jobs j where j.lane = r.id and j.state in ('waiting', 'held'))"
    " and not exists (select 1 from jobs j where j.lane = r.id and j.state = 'running')"
    " and not exists (select 1 from chain_steps x join sessions s on s.key = x.session_key where x.run = r.id)"
    " and not exists (select 1 from chain_steps x join starts y on y.session_key = x.session_key where x.run = r.id"
    "  and y.state = 'owed')"
    " from chain_runs r where r.id > ?1 order by r.id limit ?3"
)
_SESSIONS: Final = (
    "select distinct session_key from chain_steps where session_key is not null"
    " and run in (select value from json_each(?))"
)
_RUN: Final = "delete from chain_runs where id = ?"
_SKIPPED: Final = "select id from firings where run is null and at < ?2 and id > ?1 order by id limit ?3"
_FIRING: Final = "delete from firings where id = ?"

FIRST: Final = ""
FIRST_FIRING: Final = 0


class ChainSlice(NamedTuple):
    """What is deleted in one transaction, and the chain run that the walk reached; None after the last one."""

    statements: Sequence[Statement]
    place: str | None


class FiringSlice(NamedTuple):
    """The same for firings that began no chain run."""

    statements: Sequence[Statement]
    place: int | None


async def chain_runs_to_prune(store: Store, place: str, before: float, most: int, now: float) -> ChainSlice:
    """The next slice of the walk over chain runs that ended before a moment (Unix seconds)."""
    found = await store.read(_CANDIDATES, (place, min(before, now - ASKED_LATELY), most))
    if not found:
        return ChainSlice((), None)
    going = [str(run) for run, goes in found if goes]
    last = str(found[-1][0])
    if not going:
        return ChainSlice((), last)
    # If a step's run was never seen, there is no session to wait for.
    unseen: list[Row] = [(key,) for (key,) in await store.read(_SESSIONS, (listed(going),))]
    rows: list[Row] = [(run,) for run in going]
    statements = [Statement(sql, unseen) for sql in tables.GO_WITH_SESSION] if unseen else []
    statements += [Statement(sql, rows) for sql in tables.GO_WITH_CHAIN_RUN]
    statements.append(Statement(_RUN, rows, exact=True))
    return ChainSlice(statements, last)


async def firings_to_prune(store: Store, place: int, before: float, most: int) -> FiringSlice:
    """The next slice of the walk over skips and misses from before a moment (Unix seconds)."""
    found = await store.read(_SKIPPED, (place, before, most))
    if not found:
        return FiringSlice((), None)
    rows: list[Row] = [(row[0],) for row in found]
    return FiringSlice([Statement(_FIRING, rows, exact=True)], as_int(found[-1][0]))
