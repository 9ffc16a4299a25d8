"""The exchange's artifacts, with all versions of their content."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import groups_of, rows_of, select, values_of
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:  # most never use the exchange, and `status` and `why` ask whether anybody does
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.exchange import (
        Existing,
        ExistingInExchange,
        KeepArtifact,
        Principal,
        SharedArtifact,
    )

_FROM: Final = (
    "from shared_artifacts a join contents x on x.hash = a.content join contents c on c.hash = a.code"
)


def _whole(which: str) -> str:
    """The query for artifacts with their content and code."""
    from runward.handlers.model.exchange import SharedArtifact

    return select(
        SharedArtifact, f"{_FROM} {which}", "a", content="x.content", code="c.content", bare_size=None
    )


def _described(which: str) -> str:
    """The query for artifacts with their size instead of their content and code."""
    from runward.handlers.model.exchange import SharedArtifact

    # As blobs: of a text, SQLite would count characters.
    size = "length(cast(x.content as blob)) + length(cast(c.content as blob))"
    return select(SharedArtifact, f"{_FROM} {which}", "a", content="''", code="''", bare_size=size)


def _artifacts_of(rows: Iterable[tuple[object, ...]]) -> list[SharedArtifact]:
    from runward.handlers.model.exchange import SharedArtifact

    return rows_of(SharedArtifact, rows)


_PRINCIPALS: Final = "select id from principals order by id"
_SCRIP: Final = "select account, amount from balances where resource = ?"


def existing(connection: sqlite3.Connection) -> Existing:
    """All artifacts, principals and scrip balances."""
    from runward.handlers.model.exchange import SCRIP, Existing

    return Existing(
        tuple(_artifacts_of(connection.execute(_described("order by a.id")))),
        tuple(values_of(str, connection.execute(_PRINCIPALS))),
        dict(rows_of(tuple[str, int], connection.execute(_SCRIP, (SCRIP,)))),
    )


def shared_artifacts(
    connection: sqlite3.Connection,
    owner: str | None = None,
    kind: str | None = None,
    *,
    with_deleted: bool = False,
) -> list[SharedArtifact]:
    """The artifacts without content and code, by id."""
    rows = connection.execute(
        _described(
            "where (?1 is null or a.owner_id = ?1) and (?2 is null or a.type = ?2)"
            " and (?3 or a.deleted_at is null) order by a.id"
        ),
        (owner, kind, with_deleted),
    )
    return _artifacts_of(rows)


MOST_READ: Final = 20_000
"""Artifacts that `some_artifacts` looks at."""


class SomeArtifacts(NamedTuple):
    """A part of the artifacts that are wanted. `last` is the id of the last one that was looked at, if there may be more;
    `is_searched` means that there was no end yet, but the look was long enough."""

    rows: list[SharedArtifact]
    last: str | None = None
    is_searched: bool = False


def some_artifacts(
    connection: sqlite3.Connection,
    owner: str | None,
    kind: str | None,
    *,
    with_deleted: bool,
    after: str,
    limit: int,
) -> SomeArtifacts:
    """The artifacts behind `after` without content and code, by id.

    Those of an owner have an index. Types have none, and others may be deleted, so a part looks at `MOST_READ` at most.
    """
    values = {"owner": owner, "kind": kind, "deleted": with_deleted, "after": after, "most": MOST_READ}
    whose = "" if owner is None else " and owner_id = :owner"
    looked_at = f"from shared_artifacts where id > :after{whose} order by id"
    read = connection.execute(
        f"select id from (select id, type, deleted_at {looked_at} limit :most)"  # noqa: S608 # our own words
        " where (:kind is null or type = :kind) and (:deleted or deleted_at is null) limit :limit + 1",
        {**values, "limit": limit},
    ).fetchall()
    ids = values_of(str, read[:limit])
    rows = connection.execute(
        _described("where a.id in (select value from json_each(?)) order by a.id"), (listed(ids),)
    )
    shown = _artifacts_of(rows)
    if len(read) > limit:
        return SomeArtifacts(shown, ids[-1])
    end = connection.execute(f"select id {looked_at} limit 1 offset :most - 1", values).fetchone()
    return SomeArtifacts(shown, end and str(end[0]), end is not None)


def shared_artifact(connection: sqlite3.Connection, artifact_id: str) -> SharedArtifact | None:
    """The artifact with this id, deleted ones included."""
    return next(iter(_artifacts_of(connection.execute(_whole("where a.id = ?"), (artifact_id,)))), None)


def holders_of(connection: sqlite3.Connection, name: str) -> dict[str, bool]:
    """The artifacts that have this name, compared without case, and whether each of them is a principal."""
    rows = connection.execute(
        "select id, exists (select 1 from principals p where p.id = a.id) from shared_artifacts a"
        " where id = ? collate nocase",
        (name,),
    )
    return dict(rows_of(tuple[str, bool], rows))


def broken_dependencies(connection: sqlite3.Connection, artifact: SharedArtifact) -> list[str]:
    """The dependencies of an artifact that no longer exist."""
    from runward.handlers.model.exchange import GENESIS

    rows = connection.execute(
        "select id from shared_artifacts where deleted_at is null and id in (select value from json_each(?))",
        (listed(artifact.depends_on),),
    )
    there = set(values_of(str, rows))
    return [name for name in artifact.depends_on if not name.startswith(GENESIS) and name not in there]


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
    # Contents are kept by their hash, once for all versions and artifacts that have them.
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


async def _artifacts(store: Reader, ids: Iterable[str]) -> dict[str, SharedArtifact]:
    rows = await store.read(_whole("where a.id in (select value from json_each(?))"), (listed(ids),))
    return {each.id: each for each in _artifacts_of(rows)}


async def _names(store: Reader, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    rows = await store.read(
        "select asked.value, a.id from json_each(?) asked join shared_artifacts a on a.id = asked.value collate nocase"
        " order by a.id",
        (listed(names),),
    )
    return {name: tuple(other for (other,) in others) for name, others in groups_of(tuple[str], rows).items()}


def _standing(answer: Principal | None, effect: KeepArtifact) -> Principal | None:
    return None if answer is None else answer._replace(has_standing=effect.artifact.stands)


async def _existing(
    store: Reader, asked: Sequence[ExistingInExchange], jobs: Sequence[Job]
) -> Mapping[ExistingInExchange, Existing]:
    from runward.handlers.model.exchange import SCRIP, Existing

    existing = Existing(
        tuple(_artifacts_of(await store.read(_described("order by a.id")))),
        tuple(values_of(str, await store.read(_PRINCIPALS))),
        dict(rows_of(tuple[str, int], await store.read(_SCRIP, (SCRIP,)))),
    )
    return dict.fromkeys(asked, existing)


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.exchange.reading import existing_with
    from runward.handlers.model.exchange import (
        ExistingInExchange,
        KeepArtifact,
        NamesLike,
        PrincipalOf,
        SharedArtifactOf,
        without_case,
    )

    def names_after(names: tuple[str, ...], effect: KeepArtifact) -> tuple[str, ...]:
        return tuple(sorted({*names, effect.artifact.id}))

    return Table(
        writes=(KEEP_CONTENT, KEEP_ARTIFACT, KEEP_VERSION),
        appliers={KeepArtifact: _keep_artifact},
        answers={
            SharedArtifactOf: answers_by(_artifacts, lambda asked: asked.id),
            NamesLike: answers_by(_names, lambda asked: asked.name, ()),
            ExistingInExchange: _existing,
        },
        folds={
            KeepArtifact: (
                Fold(
                    lambda effect: SharedArtifactOf(effect.artifact.id),
                    lambda answer, effect: effect.artifact,
                ),
                Fold(lambda effect: NamesLike(without_case(effect.artifact.id)), names_after),
                Fold(lambda effect: PrincipalOf(effect.artifact.id), _standing),
                Fold(lambda effect: ExistingInExchange(), existing_with),
            )
        },
    )
