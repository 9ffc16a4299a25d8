"""Orders to end runs: open until they are carried out, then with their result."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.transaction import Value
from runward.daemon.store.values import as_float, as_int, listed, stored_text
from runward.handlers.model.requests import CancelRun
from runward.handlers.model.sessions import Cancellation, CancellationOf, EndTree, RunProcesses
from runward.handlers.model.stored import Stored, as_json

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write(
    "insert into cancellations (event, session_key, attempt, directory, processes, said_by, reason, timeout)"
    " values (?, ?, ?, ?, ?, ?, ?, ?)"
)

DONE: Final = "update cancellations set carried_out_at = ?, told = ?, outcome = ? where event = ? and carried_out_at is null"

_PROCESSES: Final = Stored(RunProcesses)


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


async def orders_for(store: Store, keys: Iterable[str]) -> dict[tuple[str, int], Cancellation]:
    """For each attempt of these sessions, the last order to end it that its process got or may still get.

    An order from nobody without a timeout killed what a run left that was over.
    """
    rows = await store.read(
        "select session_key, attempt, said_by, reason, carried_out_at is null, timeout from cancellations"
        " where session_key in (select value from json_each(?)) and told is not 0"
        " and (timeout is not null or said_by <> '') order by event",
        (listed(keys),),
    )
    return {
        (str(key), as_int(attempt)): Cancellation(
            str(said_by), str(reason), bool(is_owed), None if timeout is None else as_float(timeout)
        )
        for key, attempt, said_by, reason, is_owed, timeout in rows
    }


async def owed(store: Store) -> list[OwedCancellation]:
    """The orders to end runs that are not carried out yet, in order."""
    rows = await store.read(
        "select event, session_key, directory, cast(processes as blob), said_by, reason,"
        " timeout is not null or said_by = '' from cancellations"
        " where carried_out_at is null order by event"
    )
    return [
        OwedCancellation(
            as_int(event),
            str(key),
            str(directory),
            _named(named),
            str(said_by),
            str(reason),
            bool(is_kill),
        )
        for event, key, directory, named, said_by, reason, is_kill in rows
    ]


def _named(stored: Value) -> RunProcesses:
    """Whom an order is for; nobody if that can't be read, and the order's outcome then says so."""
    try:
        return _PROCESSES.load(stored_text(stored))
    except ValueError:
        return RunProcesses(None, None, None)


def _cancel(batch: "Batch", job: Job, effect: CancelRun) -> None:
    row = (job.seq, effect.key, effect.attempt, effect.directory)
    said = (as_json(effect.processes), effect.said_by, effect.reason, None)
    batch.row(INSERT, (*row, *said))


def _end_tree(batch: "Batch", job: Job, effect: EndTree) -> None:
    row = (job.seq, effect.key, effect.attempt, effect.directory)
    batch.row(INSERT, (*row, as_json(effect.processes), "", "", effect.timeout))


async def _orders(
    store: Store, asked: Sequence[CancellationOf], jobs: Sequence[Job]
) -> Mapping[CancellationOf, Cancellation | None]:
    found = await orders_for(store, [each.key for each in asked])
    return {each: found.get((each.key, each.attempt)) for each in asked}


CANCELLATIONS: Final = Table(
    writes=(INSERT,),
    appliers={CancelRun: _cancel, EndTree: _end_tree},
    answers={CancellationOf: _orders},
    goes_with_session=("delete from cancellations where session_key = ?",),
)
