"""Every firing of a chain, every skip and every miss, with its reason."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.values import as_float, listed
from runward.handlers.model.chains import MOST_FIRINGS, FiringsOf, RecordFiring

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

BY_EVENT: Final = "firing.fired.event"

RECORD: Final = Write(
    "insert into firings (chain, at, fired_by, event, result, why, run, due_at) values (?, ?, ?, ?, ?, ?, ?, ?)"
)


def _record(batch: "Batch", job: Job, effect: RecordFiring) -> None:
    batch.row(RECORD, astuple(effect))


async def by_events(store: Store, chains: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """When events recently fired these chains, newest first, by chain."""
    rows = await store.read(
        "select c.value, f.at from json_each(?1) c join firings f on f.id in (select id from firings where chain = c.value"
        " and result = 'firing.fired.event' order by at desc, id desc limit ?2) order by c.value, f.at desc",
        (listed(chains), MOST_FIRINGS),
    )
    found: dict[str, tuple[float, ...]] = {}
    for chain, at in rows:
        found[str(chain)] = (*found.get(str(chain), ()), as_float(at))
    return found


def _folded(moments: tuple[float, ...], effect: RecordFiring) -> tuple[float, ...]:
    return (effect.at, *moments)[:MOST_FIRINGS] if effect.result == BY_EVENT else moments


FIRINGS: Final = Table(
    writes=(RECORD,),
    appliers={RecordFiring: _record},
    folds={RecordFiring: (Fold(lambda effect: FiringsOf(effect.chain), _folded),)},
    answers={FiringsOf: answers_by(by_events, lambda asked: asked.chain, ())},
    goes_with_chain_run=("delete from firings where run = ?",),
)
