"""The principals of the exchange, and the CPU time that they used."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import groups_of, row_of, rows_of, select, value_of
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:  # most never use the exchange, and `status` and `why` ask whether anybody does
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.exchange import CpuUsedBy, KeepPrincipal, Principal, UseCpu


class PrincipalRow(NamedTuple):
    """A principal. Sizes are bytes, `cpu_seconds` None for no limit, `resources` millionths."""

    id: str
    created_at: float
    users: tuple[str, ...]
    disk_quota: int
    disk_used: int
    cpu_seconds: float | None
    scrip: int
    resources: dict[str, int]
    is_agent: bool
    artifacts: tuple[str, ...]


def principals(
    connection: sqlite3.Connection,
    name: str | None = None,
    after: str = "",
    limit: int = -1,
    most_artifacts: int = -1,
) -> list[PrincipalRow]:
    """The principals behind `after`, or the one of this name, by id; with their first artifacts, at most `most_artifacts`."""
    which = "where p.id > :after" if name is None else "where p.id = :name"
    query = select(
        PrincipalRow,
        f"from principals p {which} order by p.id limit :limit",
        "p",
        scrip="coalesce((select b.amount from balances b where b.account = p.id and b.resource = 'scrip'), 0)",
        resources="(select json_group_object(b.resource, b.amount) from balances b"
        " where b.account = p.id and b.resource <> 'scrip')",
        is_agent="exists (select 1 from shared_artifacts a where a.id = p.id and a.has_standing and a.can_execute)",
        artifacts="(select json_group_array(a.id) from (select id from shared_artifacts where owner_id = p.id"
        "  and deleted_at is null order by id limit :most) a)",
    )
    values = {"name": name, "after": after, "limit": limit, "most": most_artifacts}
    return rows_of(PrincipalRow, connection.execute(query, values))


def _asked(which: str) -> str:
    from runward.handlers.model.exchange import Principal

    standing = (
        "(select a.has_standing and a.deleted_at is null from shared_artifacts a where a.id = principals.id)"
    )
    return select(Principal, f"from principals {which}", has_standing=f"coalesce({standing}, 0)")


def principal(connection: sqlite3.Connection, name: str) -> Principal | None:
    """The principal of this name, in the form that actions use."""
    from runward.handlers.model.exchange import Principal

    return row_of(Principal, connection.execute(_asked("where id = ?"), (name,)).fetchone())


async def _principals(store: Reader, ids: Iterable[str]) -> dict[str, Principal]:
    from runward.handlers.model.exchange import Principal

    rows = await store.read(_asked("where id in (select value from json_each(?))"), (listed(ids),))
    return {each.id: each for each in rows_of(Principal, rows)}


def has_principals(connection: sqlite3.Connection) -> bool:
    """Whether the exchange is used."""
    return connection.execute("select 1 from principals limit 1").fetchone() is not None


def agent_of(connection: sqlite3.Connection, session_id: str) -> str | None:
    """The agent of the native run with this id."""
    row = connection.execute(
        "select agent from sessions where session_id = ? and layout = 'native' order by started_at desc limit 1",
        (session_id,),
    ).fetchone()
    return value_of(str, row)


def cpu_used(connection: sqlite3.Connection, name: str, since: float) -> float:
    """The seconds of CPU time that a principal used since a moment (Unix seconds)."""
    row = connection.execute(
        "select coalesce(sum(seconds), 0) from cpu_use where principal = ? and at > ?", (name, since)
    ).fetchone()
    return value_of(float, row) or 0.0


KEEP_PRINCIPAL: Final = Write(
    "insert into principals (id, created_at, users, disk_quota, disk_used, cpu_seconds, version, disk_default,"
    " cpu_default) values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do update set users = excluded.users,"
    " disk_quota = excluded.disk_quota, disk_used = excluded.disk_used, cpu_seconds = excluded.cpu_seconds,"
    " disk_default = excluded.disk_default, cpu_default = excluded.cpu_default,"
    " version = excluded.version where principals.version = excluded.version - 1"
)
"""It refuses a version that doesn't follow the stored one."""


def _keep_principal(batch: Batch, job: Job, effect: KeepPrincipal) -> None:
    kept = effect.principal
    batch.row(
        KEEP_PRINCIPAL,
        (
            kept.id,
            kept.created_at,
            json.dumps(kept.users),
            kept.disk_quota,
            kept.disk_used,
            kept.cpu_seconds,
            kept.version,
            kept.disk_default,
            kept.cpu_default,
        ),
    )


USE_CPU: Final = Write("insert into cpu_use (principal, at, seconds) values (?, ?, ?)")
FORGET_CPU: Final = Write("delete from cpu_use where principal = ? and at < ?", exact=False)


def _use_cpu(batch: Batch, job: Job, effect: UseCpu) -> None:
    # What is older than the window of any allocation is never asked for again.
    batch.row(USE_CPU, (effect.principal, effect.at, effect.seconds))
    batch.row(FORGET_CPU, (effect.principal, effect.kept))


async def _cpu_used(
    store: Reader, asked: Sequence[CpuUsedBy], jobs: Sequence[Job]
) -> Mapping[CpuUsedBy, tuple[tuple[float, float], ...]]:
    rows = await store.read(
        "select principal, at, seconds from cpu_use where principal in (select value from json_each(?))",
        (listed({each.principal for each in asked}),),
    )
    used = groups_of(tuple[float, float], rows)
    return {each: used.get(each.principal, ()) for each in asked}


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.exchange.reading import existing_with
    from runward.handlers.model.exchange import (
        CpuUsedBy,
        ExistingInExchange,
        KeepPrincipal,
        PrincipalOf,
        UseCpu,
    )

    return Table(
        writes=(KEEP_PRINCIPAL, USE_CPU, FORGET_CPU),
        appliers={KeepPrincipal: _keep_principal, UseCpu: _use_cpu},
        answers={PrincipalOf: answers_by(_principals, lambda asked: asked.id), CpuUsedBy: _cpu_used},
        moved_by_steps=("update cpu_use set at = at + ?",),
        folds={
            KeepPrincipal: (
                Fold(
                    lambda effect: PrincipalOf(effect.principal.id), lambda answer, effect: effect.principal
                ),
                Fold(lambda effect: ExistingInExchange(), existing_with),
            ),
            UseCpu: (
                Fold(
                    lambda effect: CpuUsedBy(effect.principal),
                    lambda answer, effect: (*answer, (effect.at, effect.seconds)),
                ),
            ),
        },
    )
