"""The exchange: artifacts, principals, the ledger, and the actions that were taken."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import astuple

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.reading_exchange import (
    ARTIFACT_ASKED,
    ARTIFACT_DESCRIBED,
    PRINCIPAL_ASKED,
    artifact_of,
    described_of,
    principal_of,
)
from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import as_float, as_int, listed
from runward.handlers.exchange.reading import existing_with
from runward.handlers.model.exchange import (
    MINT,
    SCRIP,
    BalanceOf,
    CpuUsedBy,
    Existing,
    ExistingInExchange,
    KeepArtifact,
    KeepPrincipal,
    NamesLike,
    Post,
    Principal,
    PrincipalOf,
    RecordAction,
    ResourcesOf,
    SharedArtifact,
    SharedArtifactOf,
    UseCpu,
    without_case,
)

KEEP_CONTENT: Final = Write("insert or ignore into contents (hash, content) values (?, ?)", exact=False)
KEEP_ARTIFACT: Final = Write(
    "insert into shared_artifacts (id, type, content, code, owner_id, created_at, updated_at, executable, price, policy,"
    " deleted_at, deleted_by, interface, depends_on, has_standing, can_execute, memory_artifact_id, access_contract_id,"
    " version, written_by, disk_of) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do update set"
    " type = excluded.type, content = excluded.content, code = excluded.code, owner_id = excluded.owner_id,"
    " updated_at = excluded.updated_at, executable = excluded.executable, price = excluded.price,"
    " policy = excluded.policy, deleted_at = excluded.deleted_at, deleted_by = excluded.deleted_by,"
    " interface = excluded.interface, depends_on = excluded.depends_on, has_standing = excluded.has_standing,"
    " can_execute = excluded.can_execute, memory_artifact_id = excluded.memory_artifact_id,"
    " access_contract_id = excluded.access_contract_id, version = excluded.version,"
    " written_by = excluded.written_by, disk_of = excluded.disk_of"
    " where shared_artifacts.version = excluded.version - 1"
)
"""It refuses a version that doesn't follow the stored one: another action came in between."""
KEEP_VERSION: Final = Write(
    "insert into artifact_versions (id, version, at, owner_id, content, code) values (?, ?, ?, ?, ?, ?)"
)


def _keep_artifact(batch: Batch, job: Job, effect: KeepArtifact) -> None:
    artifact = effect.artifact
    content, code = _hash(artifact.content), _hash(artifact.code)
    batch.row(KEEP_CONTENT, (content, artifact.content))
    batch.row(KEEP_CONTENT, (code, artifact.code))
    batch.row(
        KEEP_ARTIFACT,
        (
            artifact.id,
            artifact.type,
            content,
            code,
            artifact.owner_id,
            artifact.created_at,
            artifact.updated_at,
            artifact.executable,
            artifact.price,
            _dumped(artifact.policy),
            artifact.deleted_at,
            artifact.deleted_by,
            _dumped(artifact.interface),
            json.dumps(artifact.depends_on),
            artifact.has_standing,
            artifact.can_execute,
            artifact.memory_artifact_id,
            artifact.access_contract_id,
            artifact.version,
            artifact.written_by,
            artifact.disk_of,
        ),
    )
    batch.row(
        KEEP_VERSION, (artifact.id, artifact.version, artifact.updated_at, artifact.owner_id, content, code)
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _dumped(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value)


async def _artifacts(store: Store, ids: Iterable[str]) -> dict[str, SharedArtifact]:
    rows = await store.read(ARTIFACT_ASKED, (listed(ids),))
    return {str(row[0]): artifact_of(row) for row in rows}


async def _names(store: Store, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    by_owner: dict[str, tuple[str, ...]] = {}
    for name, other in await store.read(
        "select asked.value, a.id from json_each(?) asked join shared_artifacts a on a.id = asked.value collate nocase"
        " order by a.id",
        (listed(names),),
    ):
        by_owner[str(name)] = (*by_owner.get(str(name), ()), str(other))
    return by_owner


def _standing(answer: Principal | None, effect: KeepArtifact) -> Principal | None:
    return None if answer is None else answer._replace(has_standing=effect.artifact.stands)


async def _existing(
    store: Store, asked: Sequence[ExistingInExchange], jobs: Sequence[Job]
) -> Mapping[ExistingInExchange, Existing]:
    artifacts = [described_of(row) for row in await store.read(f"{ARTIFACT_DESCRIBED} order by a.id")]
    principals = [str(row[0]) for row in await store.read("select id from principals order by id")]
    scrip = await store.read("select account, amount from balances where resource = ?", (SCRIP,))
    existing = Existing(
        tuple(artifacts), tuple(principals), {str(account): as_int(amount) for account, amount in scrip}
    )
    return dict.fromkeys(asked, existing)


SHARED_ARTIFACTS: Final = Table(
    writes=(KEEP_CONTENT, KEEP_ARTIFACT, KEEP_VERSION),
    appliers={KeepArtifact: _keep_artifact},
    answers={
        SharedArtifactOf: answers_by(_artifacts, lambda asked: asked.id),
        NamesLike: answers_by(_names, lambda asked: asked.name, ()),
        ExistingInExchange: _existing,
    },
    folds={
        KeepArtifact: (
            Fold(lambda effect: SharedArtifactOf(effect.artifact.id), lambda answer, effect: effect.artifact),
            Fold(
                lambda effect: NamesLike(without_case(effect.artifact.id)),
                lambda answer, effect: tuple(sorted({*answer, effect.artifact.id})),
            ),
            Fold(lambda effect: PrincipalOf(effect.artifact.id), _standing),
            Fold(lambda effect: ExistingInExchange(), existing_with),
        )
    },
)


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


async def _principals(store: Store, ids: Iterable[str]) -> dict[str, Principal]:
    rows = await store.read(PRINCIPAL_ASKED, (listed(ids),))
    return {str(row[0]): principal_of(row) for row in rows}


USE_CPU: Final = Write("insert into cpu_use (principal, at, seconds) values (?, ?, ?)")
FORGET_CPU: Final = Write("delete from cpu_use where principal = ? and at < ?", exact=False)


def _use_cpu(batch: Batch, job: Job, effect: UseCpu) -> None:
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
    writes=(KEEP_PRINCIPAL, USE_CPU, FORGET_CPU),
    appliers={KeepPrincipal: _keep_principal, UseCpu: _use_cpu},
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


POST: Final = Write(
    "insert into ledger_entries (at, action, giver, taker, resource, amount, reason) values (?, ?, ?, ?, ?, ?, ?)"
)

PROVE: Final = Write(
    "/* the balances of a resource must add up to what was minted */"
    " update balances set amount = amount where account = ?1 and resource = ?2"
    " and -amount = (select sum(amount) from balances where resource = ?2 and account <> ?1)"
)
"""Changes nothing, and refuses the transaction if its entries left sums that are wrong."""


def _post(batch: Batch, job: Job, effect: Post) -> None:
    batch.row(POST, astuple(effect))
    batch.row_once(PROVE, (MINT, effect.resource))


async def _balances(store: Store, asked: Sequence[BalanceOf], jobs: Sequence[Job]) -> Mapping[BalanceOf, int]:
    rows = await store.read(
        "select account, resource, amount from balances where account in (select value from json_each(?))",
        (listed({each.account for each in asked}),),
    )
    balances = {BalanceOf(str(account), str(resource)): as_int(amount) for account, resource, amount in rows}
    return {each: balances.get(each, 0) for each in asked}


async def _resources(store: Store, accounts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    resources: dict[str, tuple[str, ...]] = dict.fromkeys(accounts, ())
    for account, resource in await store.read(
        "select account, resource from balances where account in (select value from json_each(?))"
        " order by account, resource",
        (listed(resources),),
    ):
        resources[str(account)] += (str(resource),)
    return resources


def _named(answer: tuple[str, ...], effect: Post) -> tuple[str, ...]:
    return tuple(sorted({*answer, effect.resource}))


LEDGER: Final = Table(
    writes=(POST, PROVE),
    appliers={Post: _post},
    answers={BalanceOf: _balances, ResourcesOf: answers_by(_resources, lambda asked: asked.account, ())},
    folds={
        Post: (
            Fold(
                lambda effect: BalanceOf(effect.giver, effect.resource),
                lambda answer, effect: answer - effect.amount,
            ),
            Fold(
                lambda effect: BalanceOf(effect.taker, effect.resource),
                lambda answer, effect: answer + effect.amount,
            ),
            Fold(lambda effect: ResourcesOf(effect.giver), _named),
            Fold(lambda effect: ResourcesOf(effect.taker), _named),
            Fold(lambda effect: ExistingInExchange(), existing_with),
        )
    },
)


RECORD_ACTION: Final = Write(
    "insert into actions (key, seq, at, principal, session_key, line, action_type, artifact_id, intent, result,"
    " is_success, error_code, scrip_after, sandbox) values (?1, (select seq from events where key = ?1), ?2, ?3, ?4, ?5, ?6, ?7,"
    " ?8, ?9, ?10, ?11, ?12, ?13)"
)


def _record(batch: Batch, job: Job, effect: RecordAction) -> None:
    batch.row(
        RECORD_ACTION,
        (
            effect.key,
            effect.at,
            effect.principal,
            effect.session_key,
            effect.line,
            effect.action_type,
            effect.artifact_id,
            stored_json(effect.intent).decode(),
            stored_json(effect.result).decode(),
            effect.is_success,
            effect.error_code,
            effect.scrip_after,
            effect.sandbox,
        ),
    )


ACTIONS: Final = Table(writes=(RECORD_ACTION,), appliers={RecordAction: _record})
