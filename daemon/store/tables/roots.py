"""The roots: when each was first seen, which directory it is, and whether other machines write there, too."""

from typing import TYPE_CHECKING, Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write, no_rows
from runward.daemon.store.values import as_float
from runward.handlers.model.requests import AcceptRoot, ScanRoots

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

IS: Final = Write("update roots set identity = ? where name = ?", exact=False)

GREW_ELSEWHERE: Final = Write(
    "update roots set grew_elsewhere_at = coalesce(grew_elsewhere_at, ?) where name = ?", exact=False
)

SEEN: Final = (
    "insert into roots (name, path, layout, first_seen_at) values (?, ?, ?, ?)"
    " on conflict (name) do update set path = excluded.path, layout = excluded.layout,"
    " identity = case when path = excluded.path then identity end,"
    " grew_elsewhere_at = case when path = excluded.path then grew_elsewhere_at end"
)


async def first_seen(store: Store) -> dict[str, float]:
    """When each root was first seen (Unix seconds), by name."""
    rows = await store.read("select name, first_seen_at from roots")
    return {str(name): as_float(at) for name, at in rows}


async def grown_elsewhere(store: Store) -> set[str]:
    """The roots in which a session grew without a process on this machine, so that other machines write there, too."""
    rows = await store.read("select name from roots where grew_elsewhere_at is not null")
    return {str(name) for (name,) in rows}


async def identities(store: Store) -> dict[str, str | None]:
    """Which directory each root is, by name; None if that was never recorded."""
    rows = await store.read("select name, identity from roots")
    return {str(name): None if identity is None else str(identity) for name, identity in rows}


def _accept(batch: "Batch", job: Job, effect: AcceptRoot) -> None:
    batch.row(IS, (effect.identity, effect.root))


ROOTS: Final = Table(writes=(IS, GREW_ELSEWHERE), appliers={AcceptRoot: _accept, ScanRoots: no_rows})
