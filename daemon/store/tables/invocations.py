"""Invocations: each order and its result."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading import begins
from runward.daemon.store.rows import rows_by_key, rows_of, select
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.invocations import EndInvocation, Invocation, OpenInvocation


OPEN_INVOCATION: Final = Write(
    "insert into invocations (id, skill, status, session_key, chain_run_id, step_index, try, node_metadata, created_at)"
    " values (?, ?, 'running', ?, ?, ?, ?, ?, ?)"
)
END_INVOCATION: Final = Write(
    "update invocations set status = ?, reason_code = ?, ended_at = ? where id = ? and status = 'running'",
    exact=False,
)


def _open(batch: Batch, job: Job, effect: OpenInvocation) -> None:
    metadata = None if effect.metadata is None else stored_json(effect.metadata).decode()
    place = (effect.session_key, effect.chain_run, effect.step, effect.attempt)
    batch.row(OPEN_INVOCATION, (effect.id, effect.skill, *place, metadata, effect.at))


def _end(batch: Batch, job: Job, effect: EndInvocation) -> None:
    batch.row(END_INVOCATION, (effect.status, effect.reason_code, effect.at, effect.id))


def _opened(answer: Invocation | None, effect: OpenInvocation) -> Invocation | None:
    """A play that was over when first seen ends in the batch that opens it. A chain's start comes after its batch."""
    from runward.handlers.model.invocations import Invocation

    return answer if effect.chain_run is not None else Invocation(effect.id, effect.skill)


async def of_sessions(store: Reader, sessions: Iterable[str]) -> dict[str, Invocation]:
    """The invocations that ordered these sessions, by the sessions' keys."""
    from runward.handlers.model.invocations import Invocation

    rows = await store.read(
        "select i.session_key, i.id, i.skill, r.chain, coalesce(i.chain_run_id, i.node_metadata ->> 'by_run')"
        " from invocations i left join chain_runs r on r.id = i.chain_run_id"
        " where i.session_key in (select value from json_each(?))",
        (listed(sessions),),
    )
    return rows_by_key(Invocation, rows)


class InvocationRow(NamedTuple):
    """An invocation. Times are Unix seconds; `node_metadata` is a JSON text. A chain run's root has `definition`, too.

    The status of a root is that of its chain run, as are its `reason_code` and `current_step`.
    """

    id: str
    skill: str
    status: str
    reason_code: str | None
    session_key: str | None
    chain_run_id: str | None
    step_index: int | None
    attempt: int | None
    node_metadata: str | None
    created_at: float
    ended_at: float | None
    chain: str | None
    definition: str | None
    current_step: int | None


class Wanted(NamedTuple):
    """Which invocations are wanted; `limit` -1 for no limit. `after`: the time and the id of the one before."""

    skill: str | None = None
    status: str | None = None
    chain_run: str | None = None
    since: float | None = None
    limit: int = -1
    after: tuple[float, str] | None = None


# The status of a root of a chain run is that of the run.
_INVOCATIONS: Final = select(
    InvocationRow,
    "from invocations i left join chain_runs r on r.id = i.chain_run_id",
    "i",
    status="iif(i.step_index is null, coalesce(r.status, i.status), i.status) as status",
    reason_code="iif(i.step_index is null, coalesce(r.reason_code, i.reason_code), i.reason_code)",
    attempt="i.try",
    chain="r.chain",
    definition="iif(i.step_index is null, r.definition, null)",
    current_step="iif(i.step_index is null, r.current_step, null)",
)

_BEHIND = "(coalesce(i.step_index, -1), 0) < (select coalesce(step_index, -1), i.id > id from invocations where id = :key)"
"""Of the same time, behind the one with the id `key` in the order of the list."""


def invocations(connection: sqlite3.Connection, wanted: Wanted) -> list[InvocationRow]:
    """The invocations that are wanted, newest first."""
    at, key = wanted.after or (None, None)
    # A condition that is not needed is left out: with `or ? is null` SQLite would not use the index.
    chosen = ("" if wanted.since is None else " and i.created_at >= :since") + (
        "" if at is None else f" and i.created_at <= :at and (i.created_at < :at or {_BEHIND})"
    )
    rows = connection.execute(
        f"select * from ({_INVOCATIONS}) i where (:skill is null or i.skill = :skill)"  # noqa: S608 # our own words
        " and (:status is null or i.status = :status) and (:chain_run is null or i.chain_run_id = :chain_run)"
        f"{chosen} order by i.created_at desc, i.step_index desc, i.id limit :limit",
        {**wanted._asdict(), "at": at, "key": key, "after": None},
    )
    return rows_of(InvocationRow, rows)


def invocations_called(connection: sqlite3.Connection, text: str) -> list[InvocationRow]:
    """The invocations whose id begins with `text`."""
    rows = connection.execute(f"{_INVOCATIONS} where {begins('i.id')} order by i.id limit 9", (text,))
    return rows_of(InvocationRow, rows)


def invocations_of(connection: sqlite3.Connection, run: str) -> dict[tuple[int | None, int | None], str]:
    """The ids of a chain run's invocations, by the step and its try; the root has neither."""
    # In two parts, one for each index: without the conditions on `step_index` SQLite would read the whole table.
    rows = connection.execute(
        "select step_index, try, id from invocations where chain_run_id = ?1 and step_index is not null"
        " union all select null, null, id from invocations where chain_run_id = ?1 and step_index is null",
        (run,),
    )
    known = rows_of(tuple[int | None, int | None, str], rows)
    return {(step, attempt): identifier for step, attempt, identifier in known}


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.invocations import EndInvocation, InvocationOf, OpenInvocation

    return Table(
        writes=(OPEN_INVOCATION, END_INVOCATION),
        appliers={OpenInvocation: _open, EndInvocation: _end},
        answers={InvocationOf: answers_by(of_sessions, lambda asked: asked.session_key)},
        folds={OpenInvocation: (Fold(lambda effect: InvocationOf(effect.session_key or ""), _opened),)},
        goes_with_session=("delete from invocations where session_key = ? and chain_run_id is null",),
        goes_with_chain_run=(
            # Each by its own index.
            "delete from invocations where chain_run_id = ? and step_index is not null",
            "delete from invocations where chain_run_id = ? and step_index is null",
        ),
    )
