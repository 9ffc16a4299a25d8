"""People's requests to prune."""

from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.transaction import Statement, as_float, as_int
from runward.handlers.model.requests import PruneSessions

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

INSERT: Final = Write("insert into prunings (event, before, said_by) values (?, ?, ?)")

_COUNT: Final = "update prunings set sessions = sessions + ? where event = ?"

_END: Final = "update prunings set ended_at = ? where event = ? and ended_at is null"


class Pruning(NamedTuple):
    """A request to prune sessions that ended before this moment (Unix seconds)."""

    event: int
    before: float


async def owed_prunings(store: Store) -> list[Pruning]:
    """The requests that aren't carried out yet, in order."""
    rows = await store.read("select event, before from prunings where ended_at is null order by event")
    return [Pruning(as_int(event), as_float(before)) for event, before in rows]


def pruning_ended(event: int, now: float) -> Statement:
    """Mark it as done."""
    return Statement(_END, [(now, event)])


def counted(event: int, sessions: int) -> Statement:
    """Add this many sessions to the request's progress."""
    return Statement(_COUNT, [(sessions, event)])


def _prune(batch: "Batch", job: Job, effect: PruneSessions) -> None:
    batch.row(INSERT, (job.seq, effect.before, effect.said_by))


PRUNINGS: Final = Table(
    writes=(INSERT,),
    appliers={PruneSessions: _prune},
    goes_with_event=("delete from prunings where event = ?",),
)
