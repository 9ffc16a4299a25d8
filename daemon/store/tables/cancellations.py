"""Orders to end runs: who gave them, and what became of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import columns, rows_by_attempt, rows_of, select
from runward.daemon.store.tables.table import Table
from runward.daemon.store.transaction import listed, stored_text

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.requests import CancelRun
    from runward.handlers.model.sessions import Cancellation, CancellationOf, EndTree, RunProcesses

INSERT: Final = Write(
    "insert into cancellations (event, session_key, attempt, directory, processes, said_by, reason, timeout)"
    " values (?, ?, ?, ?, ?, ?, ?, ?)"
)

DONE: Final = "update cancellations set carried_out_at = ?, told = ?, outcome = ? where event = ? and carried_out_at is null"


class CancellationRow(NamedTuple):
    """An order to end a run. `told` says whether its process got the order.

    It is None while the order is not carried out (`at` is None then), and if that can't be known.
    """

    event: int
    attempt: int
    told: bool | None
    outcome: str | None
    at: float | None


def cancellations(connection: sqlite3.Connection, key: str) -> list[CancellationRow]:
    """The orders to end runs of a session, in order."""
    return _chosen(connection, "session_key = ?", key)


def cancellation(connection: sqlite3.Connection, event: int) -> CancellationRow | None:
    """The order that this event caused."""
    return next(iter(_chosen(connection, "event = ?", event)), None)


def _chosen(connection: sqlite3.Connection, condition: str, value: str | int) -> list[CancellationRow]:
    rows = connection.execute(
        select(CancellationRow, f"from cancellations where {condition} order by event", at="carried_out_at"),
        (value,),
    )
    return rows_of(CancellationRow, rows)


class OwedCancellation(NamedTuple):
    """A row of `cancellations` that is still to be carried out."""

    event: int
    key: str
    directory: str
    processes: RunProcesses
    said_by: str
    reason: str
    is_kill: bool = False
    """Whether its processes are killed without being asked to end: its time is up, or they are all that is left of it."""


async def owed_cancellations(store: Reader) -> list[OwedCancellation]:
    """The orders to end runs that are not carried out yet, in order."""
    rows = await store.read(
        select(
            OwedCancellation,
            "from cancellations where carried_out_at is null order by event",
            key="session_key",
            # As bytes: a damaged text must cost its own order its processes, not fail the query for all of them.
            processes="cast(processes as blob)",
            is_kill="timeout is not null or said_by = ''",
        )
    )
    return rows_of(OwedCancellation, rows, processes=_named)


def _named(stored: bytes) -> RunProcesses:
    """Whom an order is for; nobody if that can't be read, and the order's outcome then says so."""
    from runward.handlers.model.sessions import RunProcesses
    from runward.handlers.model.stored import Stored

    try:
        return Stored(RunProcesses).load(stored_text(stored))
    except ValueError:
        return RunProcesses(None, None, None)


async def orders_for(store: Reader, keys: Iterable[str]) -> dict[tuple[str, int], Cancellation]:
    """For each attempt of these sessions, the last order to end it that its process got or may still get.

    An order from nobody without a timeout killed what a run left that was over.
    """
    from runward.handlers.model.sessions import Cancellation

    # `told` is null while an order is open, and stays null if nobody can know: both may have ended the run. Only 0 says
    # that its process never got it.
    asked = columns(Cancellation, is_owed="carried_out_at is null")
    rows = await store.read(
        f"select session_key, attempt, {asked} from cancellations"  # noqa: S608 # our own words
        " where session_key in (select value from json_each(?)) and told is not 0"
        " and (timeout is not null or said_by <> '') order by event",
        (listed(keys),),
    )
    return rows_by_attempt(Cancellation, rows)


async def _orders(
    store: Reader, asked: Sequence[CancellationOf], jobs: Sequence[Job]
) -> Mapping[CancellationOf, Cancellation | None]:
    orders = await orders_for(store, [each.key for each in asked])
    return {each: orders.get((each.key, each.attempt)) for each in asked}


def _cancel(batch: Batch, job: Job, effect: CancelRun) -> None:
    from runward.handlers.model.stored import as_json

    row = (job.seq, effect.key, effect.attempt, effect.directory)
    batch.row(INSERT, (*row, as_json(effect.processes), effect.said_by, effect.reason, None))


def _end_tree(batch: Batch, job: Job, effect: EndTree) -> None:
    from runward.handlers.model.stored import as_json

    row = (job.seq, effect.key, effect.attempt, effect.directory)
    batch.row(INSERT, (*row, as_json(effect.processes), "", "", effect.timeout))


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.requests import CancelRun
    from runward.handlers.model.sessions import CancellationOf, EndTree

    return Table(
        writes=(INSERT,),
        appliers={CancelRun: _cancel, EndTree: _end_tree},
        answers={CancellationOf: _orders},
        goes_with_session=("delete from cancellations where session_key = ?",),
        moved=("update cancellations set directory = moved(directory)",),
    )
