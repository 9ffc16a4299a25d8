"""What the database is told of orders: those of this host, and what it did with those that it took.

Each call may come again with the same words, which changes nothing. The program tells what is owed; in an older database, all of
it is told again.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from runward.config.settings import FleetSettings
from runward.daemon.faults import point
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.delivery import Contradicted, Delivery
from runward.daemon.fleet.signing import signing_key
from runward.daemon.store.tables.between_hosts import RemoteStep, TakenOrder, orders_taken, remote_steps
from runward.daemon.store.tables.fleet_outbox import ORDER, TAKEN, Owed
from runward.handlers.bundle.signatures import SecretKey
from runward.handlers.model.fleet import storable

_MOST_REASON: Final = 4096


class Call(NamedTuple):
    """A function of the database, and what it is given behind the number of the program."""

    statement: str
    given: tuple[object, ...]


class OrdersTold:
    """What is owed of orders, over one connection."""

    def __init__(self, state: Path, fleet: FleetSettings, number: int) -> None:
        self._state = state
        self._host = fleet.host
        self._number = number
        self._deliveries = (
            Delivery(state, ORDER, self._of_orders, self._tell),
            Delivery(state, TAKEN, _of_takes, self._tell),
        )
        self._unsigned: str | None = None
        """Why orders of this host are not signed, though it has a key."""

    @property
    def refused(self) -> str | None:
        """What the database refused, or why orders are not signed."""
        refused = (each.refused for each in self._deliveries)
        return next((each for each in refused if each is not None), self._unsigned)

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell the database what it lacks: each time the versions that it has by now. Raises `psycopg.Error`."""
        for each in self._deliveries:
            for versions in each.say(connection):
                yield versions
                if versions:
                    point("fleet.orders.told")

    def _tell(self, connection: Connection, calls: list[Call]) -> None:
        point("fleet.orders.read")
        with in_time(connection), connection.pipeline(), connection.transaction():
            cursors = [connection.execute(call.statement, (self._number, *call.given)) for call in calls]
            answers = [cursor.fetchone() for cursor in cursors]
            if any(answer is None or answer[0] in (None, False) for answer in answers):
                raise Contradicted("it was given up, or the database is older")
            point("fleet.orders.sent")
        point("fleet.orders.committed")

    def _of_orders(self, store: sqlite3.Connection, rows: list[Owed]) -> list[Call]:
        """What is no longer recorded needs nothing."""
        steps = {each.id: each for each in remote_steps(store, [row.subject for row in rows])}
        if not steps:
            return []
        key, self._unsigned = signing_key(self._state)
        return [
            call
            for row in rows
            if row.subject in steps
            for call in of_order(steps[row.subject], self._host, key)
        ]


def _of_takes(store: sqlite3.Connection, rows: list[Owed]) -> list[Call]:
    takes = [(str(origin), str(order), int(take)) for origin, order, take in map(_subject, rows)]
    known = {(each.origin, each.id, each.take): each for each in orders_taken(store, takes)}
    return [call for take in takes if take in known for call in of_take(known[take])]


def _subject(row: Owed) -> list[str | int]:
    found: list[str | int] = json.loads(row.subject)
    return found


def of_order(row: RemoteStep, host: str, key: SecretKey | None) -> list[Call]:
    """What the database is told of an order of this host, signed if there is a key. Raises `NoLibrary`."""
    if row.wanted == "settled":
        return [Call("select runward.settle_order(%s, %s)", (row.id,))]
    left = None if row.begin_within is None else max(0.0, row.placed_at + row.begin_within - time.time())
    place = Call(
        "select runward.place_order(%s, %s, %s, %s, %s, %s::jsonb, %s)",
        (row.id, row.host, json.loads(row.labels), row.skill, _body(row, host, key), left),
    )
    if row.wanted == "placed":
        return [place]
    # It may never have been placed. In one transaction with that, nobody can take it in between.
    return [place, Call("select runward.cancel_order(%s, %s)", (row.id,))]


def _body(row: RemoteStep, host: str, key: SecretKey | None) -> str:
    if key is None:
        return row.body
    from runward.handlers.fleet.signing import Wanted, signed  # few hosts have a key

    wanted = Wanted(row.host, tuple(json.loads(row.labels)), row.begin_within, row.placed_at)
    return json.dumps(signed(host, row.id, wanted, json.loads(row.body), key))


def of_take(row: TakenOrder) -> list[Call]:
    """What the database is told of a take of this host."""
    take = (row.origin, row.id, row.take)
    if row.state == "declined":
        why = str(storable(row.why or ""))[:_MOST_REASON]
        return [Call("select runward.give_back(%s, %s, %s, %s, %s)", (*take, why))]
    if row.result is None:
        return [Call("select runward.begin_order(%s, %s, %s, %s)", take)]
    result = json.dumps(storable(json.loads(row.result)))
    return [Call("select runward.end_order(%s, %s, %s, %s, %s::jsonb)", (*take, result))]
