"""What this host owes to its fleet: the rows of the record that changed and that the fleet's database doesn't have yet.

Temporary triggers on the daemon's one writing connection note them, so in the transaction of the change, whatever statement
makes it. Without a fleet there are no triggers, no rows and no cost.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from runward.config.root import NATIVE
from runward.daemon.store.rows import rows_of, select, value_of
from runward.daemon.store.store import Store, Transaction
from runward.daemon.store.transaction import Statement, as_int, listed

SESSION: Final = "session"
ORDER: Final = "order"
TAKEN: Final = "taken"
RECEIPT: Final = "receipt"
EVENT: Final = "event"
OUTCOME: Final = "outcome"
APPROVAL: Final = "approval"
"""The kinds of what is owed: a session by its key; an order of this host by its id; a take of an order of another host, by a JSON
list of its origin, its id and its number; a receipt by its number; an event that another host accepts, by its key; and outcomes and
approvals by their ids."""

_OF_SESSION: Final = "root, path, status, attempt, reason_code, delivery, artifact_contract_json, contract_problem, invocation_id"
"""The columns of a session whose changes are reported. Packing, which changes others, is not."""

_OWED: Final = (
    "delete from fleet_outbox where kind = '{kind}' and subject = {subject};"
    " insert into fleet_outbox (kind, subject) values ('{kind}', {subject});"
)
"""Not `insert or replace`: inside a trigger, the clause of the statement that fired it would replace that."""


_OF_TAKE: Final = "json_array(new.origin, new.id, new.take)"


_OWED_OF_EACH: Final = (
    "delete from fleet_outbox where kind = '{kind}' and subject in (select {subject});"
    " insert into fleet_outbox (kind, subject) select '{kind}', {subject};"
)
"""Where the subjects are those of several rows."""


def _trigger(name: str, event: str, kind: str, subject: str) -> str:
    owed = (_OWED_OF_EACH if " from " in subject else _OWED).format(kind=kind, subject=subject)
    return f"create temp trigger {name} {event} begin {owed} end"


_DOES_SOMETHING_ELSE: Final = (
    f"old.activity is not new.activity or (new.session_key glob '{NATIVE}:*' and old.state is not new.state)"
)

_BEGINS_OR_STOPS_WAITING: Final = "(old.status = 'waiting_approval') <> (new.status = 'waiting_approval')"

TRIGGERS: Final = {
    "fleet_session_opened": ("after insert on main.sessions", SESSION, "new.key"),
    "fleet_session_changed": (f"after update of {_OF_SESSION} on main.sessions", SESSION, "new.key"),
    "fleet_files_hashed": ("after insert on main.files", SESSION, "new.session_key"),
    "fleet_session_gone": ("after delete on main.sessions", SESSION, "old.key"),
    # What a session does is in its cursor. What is read of an agent's log changes with each reply: that waits for the next
    # change of what it does.
    "fleet_activity_changed": (
        f"after update of activity, state on main.cursors when {_DOES_SOMETHING_ELSE}",
        SESSION,
        "new.session_key",
    ),
    "fleet_order_placed": ("after insert on main.remote_steps", ORDER, "new.id"),
    "fleet_order_changed": ("after update of wanted on main.remote_steps", ORDER, "new.id"),
    "fleet_take_decided": ("after insert on main.orders_taken", TAKEN, _OF_TAKE),
    "fleet_event_told": ("after insert on main.fleet_events", EVENT, "new.key"),
    "fleet_take_over": ("after update of state on main.orders_taken", TAKEN, _OF_TAKE),
    "fleet_receipt": (
        "after insert on main.receipts when new.receipt_hash is not null",
        RECEIPT,
        "cast(new.seq as text)",
    ),
    "fleet_outcome": ("after insert on main.artifacts", OUTCOME, "new.id"),
    "fleet_outcome_changed": ("after update on main.artifacts", OUTCOME, "new.id"),
    "fleet_outcome_gone": ("after delete on main.artifacts", OUTCOME, "old.id"),
    "fleet_approval_asked": ("after insert on main.approvals", APPROVAL, "new.id"),
    "fleet_approval_decided": ("after update of status on main.approvals", APPROVAL, "new.id"),
    "fleet_approval_gone": ("after delete on main.approvals", APPROVAL, "old.id"),
    # A step waits for a person only while its chain run does.
    "fleet_approval_waits": (
        f"after update of status on main.chain_runs when {_BEGINS_OR_STOPS_WAITING}",
        APPROVAL,
        "id from approvals where run = new.id and status = 'asked'",
    ),
}
"""By name: what fires each, and the kind and the subject of what is owed then."""

_ON: Final = (
    "insert into fleet_reporting (id, epoch, reported_as, walked) values (1, ?1, ?2, '')"
    " on conflict (id) do update set epoch = excluded.epoch, reported_as = excluded.reported_as, walked ="
    # Only the daemon right before this one, or this one, leaves no gap.
    "  iif(reported_as = excluded.reported_as and epoch >= excluded.epoch - 1, walked, ''),"
    " heard = iif(reported_as = excluded.reported_as, heard, '[]')"
)

_WALK: Final = (
    "insert or ignore into fleet_outbox (kind, subject) select ?1, key from sessions"
    " where key > (select walked from fleet_reporting) order by key limit ?2"
)
_WALK_OUTCOMES: Final = (
    "insert or ignore into fleet_outbox (kind, subject) select ?1, id from artifacts where session_key in"
    " (select key from sessions where key > (select walked from fleet_reporting) order by key limit ?2)"
)
_WALKED: Final = (
    "update fleet_reporting set walked = (select max(key) from"
    " (select key from sessions s where s.key > walked order by key limit ?1)) where walked is not null"
)
_OWED_AGAIN: Final = (
    "insert or ignore into fleet_outbox (kind, subject) select '{kind}', {subject} from {rows}"
    " where (select walked from fleet_reporting) = ''"
)
_ALL_THAT_IS_OPEN: Final = (
    _OWED_AGAIN.format(kind=APPROVAL, subject="id", rows="(select id from approvals where status = 'asked')"),
    _OWED_AGAIN.format(kind=EVENT, subject="key", rows="fleet_events"),
    _OWED_AGAIN.format(kind=ORDER, subject="id", rows="remote_steps"),
    _OWED_AGAIN.format(
        kind=TAKEN,
        subject="json_array(origin, id, take)",
        rows="orders_taken",
    ),
)
"""What waited for a person, was told of events, or was decided on orders, while nobody noted it. Saying it twice changes nothing."""

_THOSE: Final = (
    "select subject from fleet_outbox where kind = '{kind}' and version in (select value from json_each(?))"
)
_DELIVERED: Final = (
    # What the fleet knows to be over is of no use any more. How a step of another host ended goes with its session.
    f"delete from remote_steps where wanted = 'settled' and id in ({_THOSE.format(kind=ORDER)})",  # noqa: S608 # our own words
    (
        "delete from orders_taken where state = 'declined'"  # noqa: S608 # our own words
        f" and json_array(origin, id, take) in ({_THOSE.format(kind=TAKEN)})"
    ),
    f"delete from fleet_events where key in ({_THOSE.format(kind=EVENT)})",  # noqa: S608 # our own words
    "delete from fleet_outbox where version in (select value from json_each(?))",
)


async def switch_on(store: Store, reported_as: str) -> None:
    """From now on, note what changes. What may have changed unnoticed is owed by `walk`.

    `reported_as` says what is reported where: if it differs from the last one, everything is owed again. Raises what
    `Store.transact` raises.
    """

    def work(transaction: Transaction) -> None:
        for name, owed in TRIGGERS.items():
            transaction.define(f"drop trigger if exists temp.{name}")
            transaction.define(_trigger(name, *owed))
        transaction.write([Statement(_ON, [(store.epoch, reported_as)])])
        transaction.write([Statement(sql, [()]) for sql in _ALL_THAT_IS_OPEN])

    await store.transact(work, "fleet")


async def switch_off(store: Store) -> None:
    """Note nothing more. Raises what `Store.transact` raises."""

    def work(transaction: Transaction) -> None:
        for name in TRIGGERS:
            transaction.define(f"drop trigger if exists temp.{name}")
        transaction.write([Statement("delete from fleet_reporting where id = ?", [(1,)])])

    await store.transact(work, "fleet")


async def walk(store: Store, most: int) -> bool:
    """Owe the next sessions that may have changed unnoticed, with their outcomes; returns whether there are more."""
    outcomes = Statement(_WALK_OUTCOMES, [(OUTCOME, most)])
    await store.run([Statement(_WALK, [(SESSION, most)]), outcomes, Statement(_WALKED, [(most,)])], "fleet")
    rows = await store.read("select 1 from fleet_reporting where walked is not null")
    return bool(rows)


async def delivered(store: Store, versions: Sequence[int]) -> None:
    """The fleet has these. A subject that changed since has another version, and stays owed."""
    await store.run([Statement(sql, [(listed(versions),)]) for sql in _DELIVERED], "fleet")


async def heard(store: Store) -> list[str]:
    """The names of the events that other hosts accept from this one, as the fleet said last."""
    rows = await store.read("select value from fleet_reporting, json_each(heard)")
    return [str(name) for (name,) in rows]


async def keep_heard(store: Store, names: Sequence[str]) -> None:
    """Keep what the fleet said of that, for the time when it can't be asked."""
    await store.run([Statement("update fleet_reporting set heard = ?", [(listed(names),)])], "fleet")


async def newest(store: Store) -> int:
    """The highest version that is owed; 0 if none is."""
    ((version,),) = await store.read("select coalesce(max(version), 0) from fleet_outbox")
    return as_int(version)


_SINCE: Final = "select reported_as ->> 4 from fleet_reporting"
"""What is reported where also says since when everything is owed again: the fifth of a list, if the database was restored."""


async def noted_since(store: Store) -> str | None:
    """Since when everything is owed again, as it was noted last; None if never."""
    return value_of(str, next(iter(await store.read(_SINCE)), None))


def owed_again_since(connection: sqlite3.Connection) -> str | None:
    """The same, for the program."""
    return value_of(str, connection.execute(_SINCE).fetchone())


class Owed(NamedTuple):
    """A row that the fleet lacks. `version` is that of its last change."""

    version: int
    kind: str
    subject: str


def owed(connection: sqlite3.Connection, kind: str, after: int, most: int) -> list[Owed]:
    """The next ones of a kind, the longest owed first."""
    rows = connection.execute(
        select(Owed, "from fleet_outbox where kind = ? and version > ? order by version limit ?"),
        (kind, after, most),
    )
    return rows_of(Owed, rows)


def how_many_owed(connection: sqlite3.Connection) -> int:
    """How many there are."""
    return value_of(int, connection.execute("select count(*) from fleet_outbox").fetchone()) or 0


def still_there(connection: sqlite3.Connection, versions: Iterable[int]) -> set[int]:
    """Those of these versions that are still in it."""
    query = "select version from fleet_outbox where version in (select value from json_each(?))"
    return {int(version) for (version,) in connection.execute(query, (listed(versions),))}
