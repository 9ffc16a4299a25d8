"""Whether the database is older than this host knows: it was restored, or is a replica that was promoted.

The program remembers, in a file of its own, which database it was and how many changes of orders it had seen of each host. If the
database is older, each host says again what it took and ordered, and what it owes. Until then nobody takes anything.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from psycopg.types.json import Jsonb

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings
from runward.daemon.disk.durable import make_durably, write_durably
from runward.daemon.faults import point
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.problems import named
from runward.daemon.fleet.pulse import Pulse
from runward.daemon.fleet.signing import signing_key
from runward.daemon.fleet.telling_orders import Call, of_order, of_take
from runward.daemon.inbox.spool import INBOX
from runward.daemon.store import reading
from runward.daemon.store.tables.between_hosts import (
    Take,
    all_orders_taken,
    all_remote_steps,
    has_taken,
    last_restore,
    newest_event,
    takes_to_decide,
)
from runward.daemon.store.tables.fleet_outbox import owed_again_since
from runward.handlers.foreign_json import NotJson, read_json

_PLACE: Final = "fleet"
_NAME: Final = "seen.json"
_MOST_AT_ONCE: Final = 100

_COMPARE: Final = (
    "select here, since, waits_for, changes::text from runward.compare_record(%s, %s, %s, %s, %s, %s::jsonb)"
)
T = TypeVar("T")


class Seen(NamedTuple):
    """What this host remembers: the database's identity, and by host how many changes of orders it has seen of it."""

    identity: str | None
    changes: dict[str, int]


class Record:
    """The comparison of this host's memory with the database, over one connection."""

    def __init__(self, state: Path, fleet: FleetSettings, number: int) -> None:
        self._state = state
        self._fleet = fleet
        self._number = number
        self._seen = self._read()
        self._found = self._seen
        """What the database had at the last comparison."""
        self._waits_for: list[str] = []
        self._lost: list[str] = []
        self.since: str | None = None
        """Since when this host has to say again what it knows; None if it has not, or did."""

    @property
    def refused(self) -> str | None:
        """What is wrong, for `status`."""
        if self._waits_for:
            return (
                f"the database is older than its hosts know: nobody takes orders until {named(self._waits_for)} have"
                " said again what they know; `runward fleet resume --without HOST` leaves a lost one out"
            )
        if self._lost:
            return (
                f"{named(self._lost)}: begun here, but the fleet gave it to another host meanwhile;"
                " look at both hosts whether it ran twice"
            )
        return None

    def look(self, connection: Connection) -> None:
        """Compare, and say again what the database has forgotten. Raises `psycopg.Error`, `OSError`, and `StoreUnreadable`."""
        self._compare(connection)
        if self.since is None:
            return
        with reading.reading(str(self._state)) as store:
            since = owed_again_since(store)
        # The daemon owes all its reports again first: that is durable before the fleet goes on.
        if since == self.since:
            self._say_again(connection)
            self._compare(connection)

    def heed(self, connection: Connection, pulse: Pulse) -> None:
        """Do so if orders have changed since, or hosts say again what they know. Raises what `look` raises."""
        if pulse.is_older or pulse.changes != sum(self._found.changes.values()):
            self.look(connection)

    def _compare(self, connection: Connection) -> None:
        with reading.reading(str(self._state)) as store:
            takes_orders = bool(self._fleet.accept) or has_taken(store)
            store_facts = (last_restore(store), newest_event(store))
        seen = (self._seen.identity, Jsonb(self._seen.changes))
        with in_time(connection):
            row = connection.execute(_COMPARE, (self._number, takes_orders, *store_facts, *seen)).fetchone()
        assert row is not None, "a function returns a row"
        identity, self.since, self._waits_for, changes = row
        self._found = Seen(identity, json.loads(changes))
        point("fleet.record.compared")
        if self.since is None:
            self._remember(self._found)

    def _say_again(self, connection: Connection) -> None:
        """All that this host took and ordered."""
        # What is not in the inbox any more is in the store.
        waiting = self._takes_in_inbox()
        with reading.reading(str(self._state)) as store:
            ordered = [each for each in all_remote_steps(store) if each.wanted != "settled"]
            taken = all_orders_taken(store)
            waiting += takes_to_decide(store)
        wanted = [each.id for each in ordered]
        key, _ = signing_key(self._state) if ordered else (None, None)
        calls = [call for each in ordered for call in of_order(each, self._fleet.host, key)]
        calls.append(Call("select runward.still_wanted(%s, %s)", (wanted,)))
        begun = [(each.origin, each.id, each.take) for each in taken if each.state != "declined"]
        claims = [*begun, *(take for take in waiting if take not in begun)]
        self._lost = []
        for some in _slices(calls):
            _call(connection, self._number, some)
        for takes in _slices(claims):
            answers = _call(
                connection,
                self._number,
                [Call("select runward.took_order(%s, %s, %s, %s)", take) for take in takes],
            )
            self._lost += [
                f"{origin}/{order}"
                for (origin, order, _), answer in zip(takes, answers, strict=True)
                if answer == "lost"
            ]
        for some in _slices([call for each in taken for call in of_take(each)]):
            _call(connection, self._number, some)
        # What it knew of later changes is in the database by now: it would say again that this one is older.
        self._remember(self._found)
        point("fleet.record.said")
        _call(connection, self._number, [Call("select runward.said_again(%s)", ())])

    def _takes_in_inbox(self) -> list[Take]:
        """What was taken over an earlier connection, and the daemon has not read."""
        found: list[Take] = []
        for path in (self._state / INBOX).glob("fleet-order-*.json"):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue  # read meanwhile: now the store has it
            take = _take_of(read_json(content))
            if take is not None:
                found.append(take)
        return found

    def _read(self) -> Seen:
        """What was remembered of this database; nothing if it was another one."""
        try:
            content = (self._state / _PLACE / _NAME).read_bytes()
        except FileNotFoundError:
            return Seen(None, {})
        kept = json.loads(content)
        if [kept["host"], kept["database"]] != [self._fleet.host, self._fleet.database]:
            return Seen(None, {})
        return Seen(kept["identity"], kept["changes"])

    def _remember(self, seen: Seen) -> None:
        if seen == self._seen:
            return
        make_durably(self._state, _PLACE)
        kept = {"host": self._fleet.host, "database": self._fleet.database, **seen._asdict()}
        write_durably(self._state / _PLACE, _NAME, json.dumps(kept).encode())
        self._seen = seen


def _take_of(request: JsonValue | NotJson) -> Take | None:
    """The take that a request in the inbox tells of."""
    payload = request.get("payload") if isinstance(request, dict) else None
    if not isinstance(payload, dict):
        return None
    origin, order, take = payload.get("origin"), payload.get("id"), payload.get("take")
    if isinstance(origin, str) and isinstance(order, str) and isinstance(take, int):
        return origin, order, take
    return None


def _call(connection: Connection, number: int, calls: Sequence[Call]) -> list[object]:
    with in_time(connection), connection.pipeline(), connection.transaction():
        cursors = [connection.execute(call.statement, (number, *call.given)) for call in calls]
        rows = [cursor.fetchone() for cursor in cursors]
    return [None if row is None else row[0] for row in rows]


def _slices(what: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(what), _MOST_AT_ONCE):
        yield what[start : start + _MOST_AT_ONCE]
