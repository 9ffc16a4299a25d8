"""The exchange's artifacts, as the daemon and commands read them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.transaction import as_float, as_int

if TYPE_CHECKING:  # most never use the exchange, and `status` and `why` ask whether anybody does
    from runward.handlers.model.exchange import Existing, Principal, SharedArtifact

ARTIFACT_COLUMNS: Final = (
    "a.id, a.type, {content}, a.owner_id, a.created_at, a.updated_at, a.executable, {code}, a.price, a.policy,"
    " a.deleted_at, a.deleted_by, a.interface, a.depends_on, a.has_standing, a.can_execute, a.memory_artifact_id,"
    " a.access_contract_id, a.version, length(cast(x.content as blob)) + length(cast(c.content as blob)), a.written_by, a.disk_of"
)
_FROM: Final = (
    " from shared_artifacts a join contents x on x.hash = a.content join contents c on c.hash = a.code"
)
ARTIFACT_WHOLE: Final = "select " + ARTIFACT_COLUMNS.format(content="x.content", code="c.content") + _FROM
ARTIFACT_ASKED: Final = f"{ARTIFACT_WHOLE} where a.id in (select value from json_each(?))"  # noqa: S608 # our own words
ARTIFACT_DESCRIBED: Final = "select " + ARTIFACT_COLUMNS.format(content="''", code="''") + _FROM
"""The artifacts without content and code, and with their size."""


def artifact_of(row: Sequence[object]) -> SharedArtifact:
    """The artifact in a row of `WHOLE`."""
    from runward.handlers.model.exchange import SharedArtifact

    return SharedArtifact(
        id=str(row[0]),
        type=str(row[1]),
        content=str(row[2]),
        owner_id=str(row[3]),
        created_at=as_float(row[4]),
        updated_at=as_float(row[5]),
        executable=bool(row[6]),
        code=str(row[7]),
        price=as_int(row[8]),
        policy=None if row[9] is None else json.loads(str(row[9])),
        deleted_at=None if row[10] is None else as_float(row[10]),
        deleted_by=None if row[11] is None else str(row[11]),
        interface=None if row[12] is None else json.loads(str(row[12])),
        depends_on=tuple(json.loads(str(row[13]))),
        has_standing=bool(row[14]),
        can_execute=bool(row[15]),
        memory_artifact_id=None if row[16] is None else str(row[16]),
        access_contract_id=None if row[17] is None else str(row[17]),
        version=as_int(row[18]),
        written_by=str(row[20]),
        disk_of=None if row[21] is None else str(row[21]),
    )


def described_of(row: Sequence[object]) -> SharedArtifact:
    """The artifact in a row of `DESCRIBED`."""
    return artifact_of(row)._replace(bare_size=as_int(row[19]))


PRINCIPALS: Final = (
    "select id, created_at, users, disk_quota, disk_used, cpu_seconds, version, disk_default, cpu_default, coalesce((select a.has_standing"
    " and a.deleted_at is null from shared_artifacts a where a.id = principals.id), 0) from principals"
)
PRINCIPAL_ASKED: Final = f"{PRINCIPALS} where id in (select value from json_each(?))"  # noqa: S608 # our own words


def principal_of(row: Sequence[object]) -> Principal:
    """The principal in a row of `PRINCIPALS`."""
    from runward.handlers.model.exchange import Principal

    return Principal(
        str(row[0]),
        as_float(row[1]),
        tuple(json.loads(str(row[2]))),
        as_int(row[3]),
        as_int(row[4]),
        None if row[5] is None else as_float(row[5]),
        as_int(row[6]),
        None if row[7] is None else as_int(row[7]),
        as_float(row[8]),
        bool(row[9]),
    )


LAST: Final = (1 << 63) - 1
"""A number after which nothing comes."""


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


class LedgerRow(NamedTuple):
    """An entry of the ledger: units of scrip, millionths of other resources."""

    seq: int
    at: float
    action: str
    giver: str
    taker: str
    resource: str
    amount: int
    reason: str


class ActionRow(NamedTuple):
    """An action with its result, and the hash of the event that reports it; `intent` and `result` are JSON texts."""

    seq: int
    key: str
    at: float
    principal: str | None
    session_key: str | None
    line: int | None
    action_type: str | None
    artifact_id: str | None
    intent: str
    result: str
    is_success: bool
    error_code: str | None
    scrip_after: int | None
    sandbox: str | None
    hash: str | None


class WantedActions(NamedTuple):
    """Which actions are wanted: all those after the number `after` and before `before`, in order."""

    principal: str | None = None
    artifact: str | None = None
    since: float | None = None
    after: int = 0
    limit: int = -1
    before: int = LAST


_PRINCIPALS: Final = (
    "select p.id, p.created_at, p.users, p.disk_quota, p.disk_used, p.cpu_seconds,"
    " coalesce((select b.amount from balances b where b.account = p.id and b.resource = 'scrip'), 0),"
    " (select json_group_object(b.resource, b.amount) from balances b where b.account = p.id and b.resource <> 'scrip'),"
    " exists (select 1 from shared_artifacts a where a.id = p.id and a.has_standing and a.can_execute),"
    " (select json_group_array(a.id) from (select id from shared_artifacts where owner_id = p.id"
    "  and deleted_at is null order by id limit :most) a) from principals p"
)
_ACTIONS: Final = (
    "select a.seq, a.key, a.at, a.principal, a.session_key, a.line, a.action_type, a.artifact_id, a.intent, a.result,"
    " a.is_success, a.error_code, a.scrip_after, a.sandbox,"
    " (select t.hash from events t where t.key in (a.key || '/taken', a.session_key || '#' ||"
    "  (select i.payload ->> 'attempt' from events i where i.seq = a.seq) || '/action/' || a.line || '/taken'))"
    " from actions a where a.seq > :after and a.seq < :before"
)
_WANTED_ACTIONS: Final = {
    "principal": " and a.principal = :principal",
    "artifact": " and a.artifact_id = :artifact",
    "since": " and a.at >= :since",
}
_LEDGER: Final = "select seq, at, action, giver, taker, resource, amount, reason from ledger_entries"


def principals(
    connection: sqlite3.Connection,
    name: str | None = None,
    after: str = "",
    limit: int = -1,
    most_artifacts: int = -1,
) -> list[PrincipalRow]:
    """The principals behind `after`, or the one of this name, by id; with their first artifacts, at most `most_artifacts`."""
    which = "where p.id > :after" if name is None else "where p.id = :name"
    rows = connection.execute(
        f"{_PRINCIPALS} {which} order by p.id limit :limit",
        {"name": name, "after": after, "limit": limit, "most": most_artifacts},
    )
    return [
        PrincipalRow(
            id=row[0],
            created_at=row[1],
            users=tuple(json.loads(row[2])),
            disk_quota=row[3],
            disk_used=row[4],
            cpu_seconds=row[5],
            scrip=row[6],
            resources=json.loads(row[7]),
            is_agent=bool(row[8]),
            artifacts=tuple(json.loads(row[9])),
        )
        for row in rows
    ]


def principal(connection: sqlite3.Connection, name: str) -> Principal | None:
    """The principal of this name, in the form that actions use."""
    row = connection.execute(f"{PRINCIPALS} where id = ?", (name,)).fetchone()
    return None if row is None else principal_of(row)


def existing(connection: sqlite3.Connection) -> Existing:
    """All artifacts, principals and scrip balances."""
    from runward.handlers.model.exchange import SCRIP, Existing

    scrip = connection.execute("select account, amount from balances where resource = ?", (SCRIP,))
    names = connection.execute("select id from principals order by id")
    return Existing(
        tuple(described_of(row) for row in connection.execute(f"{ARTIFACT_DESCRIBED} order by a.id")),
        tuple(str(name) for (name,) in names),
        {str(account): int(amount) for account, amount in scrip},
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
        f"{ARTIFACT_DESCRIBED} where (?1 is null or a.owner_id = ?1) and (?2 is null or a.type = ?2)"
        " and (?3 or a.deleted_at is null) order by a.id",
        (owner, kind, with_deleted),
    )
    return [described_of(row) for row in rows]


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
    ids = [str(name) for (name,) in read[:limit]]
    rows = connection.execute(
        f"{ARTIFACT_DESCRIBED} where a.id in (select value from json_each(?)) order by a.id",  # noqa: S608 # our own words
        (json.dumps(ids),),
    )
    shown = [described_of(row) for row in rows]
    if len(read) > limit:
        return SomeArtifacts(shown, ids[-1])
    end = connection.execute(
        f"select id {looked_at} limit 1 offset :most - 1", values
    ).fetchone()  # our own words
    return SomeArtifacts(shown, end and str(end[0]), end is not None)


def shared_artifact(connection: sqlite3.Connection, artifact_id: str) -> SharedArtifact | None:
    """The artifact with this id, deleted ones included."""
    row = connection.execute(f"{ARTIFACT_WHOLE} where a.id = ?", (artifact_id,)).fetchone()
    return None if row is None else artifact_of(row)


def actions(connection: sqlite3.Connection, wanted: WantedActions) -> list[ActionRow]:
    """The actions that are wanted, oldest first."""
    return _actions(connection, wanted, "order by a.seq")


def latest_actions(connection: sqlite3.Connection, wanted: WantedActions) -> list[ActionRow]:
    """The newest `limit` of the actions that are wanted, oldest first."""
    return _actions(connection, wanted, "order by a.seq desc")[::-1]


def _actions(connection: sqlite3.Connection, wanted: WantedActions, order: str) -> list[ActionRow]:
    values = wanted._asdict()
    which = "".join(each for name, each in _WANTED_ACTIONS.items() if values[name] is not None)
    rows = connection.execute(f"{_ACTIONS}{which} {order} limit :limit", values)
    return [_action(row) for row in rows]


def action(connection: sqlite3.Connection, key: str) -> ActionRow | None:
    """The action with this key."""
    seq = connection.execute("select seq from actions where key = ?", (key,)).fetchone()
    if seq is None:
        return None
    rows = actions(connection, WantedActions(after=seq[0] - 1, limit=1))
    return rows[0] if rows and rows[0].key == key else None


def held_job(connection: sqlite3.Connection, key: str) -> int | None:
    """The job for this intent, if it is held because Runward failed at it."""
    row = connection.execute(
        "select j.id from events e join jobs j on j.id between 32 * e.seq and 32 * e.seq + 31"
        " where e.key = ? and j.handler = 'exchange/act' and j.state = 'held'",
        (key,),
    ).fetchone()
    return None if row is None else int(row[0])


def _action(row: tuple[object, ...]) -> ActionRow:
    return ActionRow(*row)._replace(is_success=bool(row[10]))  # type: ignore[arg-type] # the schema's own types


def ledger_entries(
    connection: sqlite3.Connection, account: str | None = None, since: float | None = None
) -> list[LedgerRow]:
    """The entries, oldest first."""
    rows = connection.execute(
        f"{_LEDGER} where (?1 is null or giver = ?1 or taker = ?1) and (?2 is null or at >= ?2) order by seq",
        (account, since),
    )
    return [LedgerRow(*row) for row in rows]


def latest_entries(
    connection: sqlite3.Connection, account: str | None, before: int, limit: int
) -> list[LedgerRow]:
    """The newest `limit` entries before the number `before`, oldest first. Each side of an account has its own index."""
    sides = ("",) if account is None else ("giver = :account and", "taker = :account and")
    newest = "order by seq desc limit :limit"
    each = [f"select * from ({_LEDGER} where {side} seq < :before {newest})" for side in sides]  # noqa: S608 # our own words
    rows = connection.execute(
        f"{' union '.join(each)} {newest}", {"account": account, "before": before, "limit": limit}
    )
    return [LedgerRow(*row) for row in rows][::-1]


def wrong_balances(connection: sqlite3.Connection) -> Iterator[str]:
    """Errors in the ledger: balances that differ from the entries, negative balances, sums that aren't zero."""
    from runward.handlers.model.exchange import MINT

    rows = connection.execute(
        "with sides (account, resource, amount) as (select taker, resource, amount from ledger_entries"
        " union all select giver, resource, -amount from ledger_entries),"
        " sums as (select account, resource, sum(amount) as amount from sides group by 1, 2)"
        " select coalesce(s.account, b.account), coalesce(s.resource, b.resource), s.amount, b.amount"
        " from sums s full join balances b on b.account = s.account and b.resource = s.resource"
        " where s.amount is not b.amount and coalesce(s.amount, 0) <> coalesce(b.amount, 0)"
    )
    for account, resource, counted, kept in rows:
        yield f"{account} has {kept} {resource}, and the entries make {counted}"
    for account, resource, amount in connection.execute(
        "select account, resource, amount from balances where amount < 0 and account <> ?", (MINT,)
    ):
        yield f"{account} has {amount} {resource}"
    for resource, total in connection.execute(
        "select resource, sum(amount) from balances group by resource having sum(amount) <> 0"
    ):
        yield f"the balances of {resource} add up to {total}"


def units(connection: sqlite3.Connection, account: str, resource: str) -> int:
    """The balance of an account: units of scrip, or millionths of another resource."""
    row = connection.execute(
        "select amount from balances where account = ? and resource = ?", (account, resource)
    ).fetchone()
    return 0 if row is None else int(row[0])


def resources(connection: sqlite3.Connection, account: str) -> tuple[str, ...]:
    """The names of the resources that an account has a balance of."""
    rows = connection.execute("select resource from balances where account = ? order by resource", (account,))
    return tuple(str(name) for (name,) in rows)


def cpu_used(connection: sqlite3.Connection, name: str, since: float) -> float:
    """The seconds of CPU time that a principal used since a moment (Unix seconds)."""
    row = connection.execute(
        "select coalesce(sum(seconds), 0) from cpu_use where principal = ? and at > ?", (name, since)
    ).fetchone()
    return float(row[0])


def scrip_in_circulation(connection: sqlite3.Connection) -> int:
    """Scrip that was minted, less what was taken back."""
    from runward.handlers.model.exchange import MINT, SCRIP

    row = connection.execute(
        "select -amount from balances where account = ? and resource = ?", (MINT, SCRIP)
    ).fetchone()
    return 0 if row is None else int(row[0])


def holders_of(connection: sqlite3.Connection, name: str) -> dict[str, bool]:
    """The artifacts that have this name, compared without case, and whether each of them is a principal."""
    rows = connection.execute(
        "select id, exists (select 1 from principals p where p.id = a.id) from shared_artifacts a"
        " where id = ? collate nocase",
        (name,),
    )
    return {str(holder): bool(is_principal) for holder, is_principal in rows}


def agent_of(connection: sqlite3.Connection, session_id: str) -> str | None:
    """The agent of the native run with this id."""
    row = connection.execute(
        "select agent from sessions where session_id = ? and layout = 'native' order by started_at desc limit 1",
        (session_id,),
    ).fetchone()
    return None if row is None else row[0]


def actions_waiting(connection: sqlite3.Connection) -> int:
    """Intents that have no result yet."""
    # Each condition on the state names that of a partial index, because there are many done jobs.
    row = connection.execute(
        "select (select count(*) from jobs where state in ('waiting', 'held') and state = 'waiting'"
        "  and handler = 'exchange/act') + (select count(*) from jobs where state = 'running'"
        "  and handler = 'exchange/act')"
    ).fetchone()
    return int(row[0])


def has_principals(connection: sqlite3.Connection) -> bool:
    """Whether the exchange is used."""
    return connection.execute("select 1 from principals limit 1").fetchone() is not None


def broken_dependencies(connection: sqlite3.Connection, artifact: SharedArtifact) -> list[str]:
    """The dependencies of an artifact that no longer exist."""
    from runward.handlers.model.exchange import GENESIS

    rows = connection.execute(
        "select id from shared_artifacts where deleted_at is null and id in (select value from json_each(?))",
        (json.dumps(artifact.depends_on),),
    )
    there = {str(name) for (name,) in rows}
    return [name for name in artifact.depends_on if not name.startswith(GENESIS) and name not in there]


def as_json(text: str) -> JsonValue:
    """The value of a JSON text that Runward wrote."""
    value: JsonValue = json.loads(text)
    return value
