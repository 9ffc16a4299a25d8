"""The artifacts of the exchange, their versions, and their contents by hash."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from runward.config.json_value import JsonValue
from runward.daemon.store.artifact_rows import ASKED, DESCRIBED, artifact_of, described_of
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.values import as_int, listed
from runward.handlers.exchange.existing import existing_with
from runward.handlers.model.exchange import (
    SCRIP,
    Existing,
    ExistingInExchange,
    KeepArtifact,
    NamesLike,
    Principal,
    PrincipalOf,
    SharedArtifact,
    SharedArtifactOf,
    without_case,
)

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

CONTENT: Final = Write("insert or ignore into contents (hash, content) values (?, ?)", exact=False)
KEEP: Final = Write(
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
VERSION: Final = Write(
    "insert into artifact_versions (id, version, at, owner_id, content, code) values (?, ?, ?, ?, ?, ?)"
)


def _keep(batch: "Batch", job: Job, effect: KeepArtifact) -> None:
    artifact = effect.artifact
    content, code = _hash(artifact.content), _hash(artifact.code)
    batch.row(CONTENT, (content, artifact.content))
    batch.row(CONTENT, (code, artifact.code))
    batch.row(
        KEEP,
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
    batch.row(VERSION, (artifact.id, artifact.version, artifact.updated_at, artifact.owner_id, content, code))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _dumped(value: JsonValue) -> str | None:
    return None if value is None else json.dumps(value)


async def _artifacts(store: Store, ids: Iterable[str]) -> dict[str, SharedArtifact]:
    rows = await store.read(ASKED, (listed(ids),))
    return {str(row[0]): artifact_of(row) for row in rows}


async def _names(store: Store, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, other in await store.read(
        "select asked.value, a.id from json_each(?) asked join shared_artifacts a on a.id = asked.value collate nocase"
        " order by a.id",
        (listed(names),),
    ):
        found[str(name)] = (*found.get(str(name), ()), str(other))
    return found


def _standing(answer: Principal | None, effect: KeepArtifact) -> Principal | None:
    return None if answer is None else answer._replace(has_standing=effect.artifact.stands)


async def _existing(
    store: Store, asked: Sequence[ExistingInExchange], jobs: Sequence[Job]
) -> Mapping[ExistingInExchange, Existing]:
    artifacts = [described_of(row) for row in await store.read(f"{DESCRIBED} order by a.id")]
    principals = [str(row[0]) for row in await store.read("select id from principals order by id")]
    scrip = await store.read("select account, amount from balances where resource = ?", (SCRIP,))
    found = Existing(
        tuple(artifacts), tuple(principals), {str(account): as_int(amount) for account, amount in scrip}
    )
    return dict.fromkeys(asked, found)


SHARED_ARTIFACTS: Final = Table(
    writes=(CONTENT, KEEP, VERSION),
    appliers={KeepArtifact: _keep},
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
