"""The roots: when each was first seen, and which directory it is."""

from typing import TYPE_CHECKING, Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write, no_rows
from runward.daemon.store.values import as_float
from runward.handlers.effects import AcceptRoot, ScanRoots

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

IS: Final = Write("update roots set identity = ? where name = ?", exact=False)

SEEN: Final = (
    "insert into roots (name, path, layout, first_seen_at) values (?, ?, ?, ?)"
    " on conflict (name) do update set path = excluded.path, layout = excluded.layout,"
    " identity = case when path = excluded.path then identity end"
)


async def first_seen(store: Store) -> dict[str, float]:
    """When each root was first seen (Unix seconds), by name."""
    rows = await store.read("select name, first_seen_at from roots")
    return {str(name): as_float(at) for name, at in rows}


async def identities(store: Store) -> dict[str, str | None]:
    """Which directory each root is, by name; None if that was never recorded."""
    rows = await store.read("select name, identity from roots")
    return {str(name): None if identity is None else str(identity) for name, identity in rows}


def _accept(batch: "Batch", job: Job, effect: AcceptRoot) -> None:
    batch.row(IS, (effect.identity, effect.root))


ROOTS: Final = Table(writes=(IS,), appliers={AcceptRoot: _accept, ScanRoots: no_rows})
