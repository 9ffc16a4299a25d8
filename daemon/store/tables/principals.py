"""The principals of the exchange: who may act as them, and what they may use."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from runward.daemon.store.principal_rows import ASKED, principal_of
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.values import as_float, listed
from runward.handlers.exchange.existing import existing_with
from runward.handlers.model.exchange import (
    CpuUsedBy,
    ExistingInExchange,
    KeepPrincipal,
    Principal,
    PrincipalOf,
    UseCpu,
)

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

KEEP: Final = Write(
    "insert into principals (id, created_at, users, disk_quota, disk_used, cpu_seconds, version, disk_default,"
    " cpu_default) values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do update set users = excluded.users,"
    " disk_quota = excluded.disk_quota, disk_used = excluded.disk_used, cpu_seconds = excluded.cpu_seconds,"
    " disk_default = excluded.disk_default, cpu_default = excluded.cpu_default,"
    " version = excluded.version where principals.version = excluded.version - 1"
)
"""It refuses a version that doesn't follow the stored one."""


def _keep(batch: "Batch", job: Job, effect: KeepPrincipal) -> None:
    kept = effect.principal
    batch.row(
        KEEP,
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


async def _principals(store: Store, ids: Iterable[str]) -> dict[str, Principal]:
    rows = await store.read(ASKED, (listed(ids),))
    return {str(row[0]): principal_of(row) for row in rows}


USE_CPU: Final = Write("insert into cpu_use (principal, at, seconds) values (?, ?, ?)")
FORGET_CPU: Final = Write("delete from cpu_use where principal = ? and at < ?", exact=False)


def _use_cpu(batch: "Batch", job: Job, effect: UseCpu) -> None:
    batch.row(USE_CPU, (effect.principal, effect.at, effect.seconds))
    batch.row(FORGET_CPU, (effect.principal, effect.kept))


async def _cpu_used(
    store: Store, asked: Sequence[CpuUsedBy], jobs: Sequence[Job]
) -> Mapping[CpuUsedBy, tuple[tuple[float, float], ...]]:
    rows = await store.read(
        "select principal, at, seconds from cpu_use where principal in (select value from json_each(?))",
        (listed({each.principal for each in asked}),),
    )
    return {
        each: tuple(
            (as_float(at), as_float(seconds))
            for principal, at, seconds in rows
            if principal == each.principal
        )
        for each in asked
    }


PRINCIPALS: Final = Table(
    writes=(KEEP, USE_CPU, FORGET_CPU),
    appliers={KeepPrincipal: _keep, UseCpu: _use_cpu},
    answers={PrincipalOf: answers_by(_principals, lambda asked: asked.id), CpuUsedBy: _cpu_used},
    moved_by_steps=("update cpu_use set at = at + ?",),
    folds={
        KeepPrincipal: (
            Fold(lambda effect: PrincipalOf(effect.principal.id), lambda answer, effect: effect.principal),
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
