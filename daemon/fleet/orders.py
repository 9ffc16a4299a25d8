"""What the program brings of orders from the rows of the fleet's database into the inbox: what became of those of this host, and
those that it takes.

The row decides who may begin, and each request has a name that follows from what it says. So everything may be brought
again, and is, after every connection: what was taken just before a crash is found among what this host has taken.
"""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings
from runward.daemon.faults import point
from runward.daemon.fleet.connecting import PATIENCE_S, Connection, in_time
from runward.daemon.fleet.problems import named
from runward.daemon.inbox.spool import RequestTooLong, leave_request
from runward.daemon.store import reading
from runward.daemon.store.tables.between_hosts import (
    TakenOrder,
    orders_taken,
    remote_steps,
    takes_begun,
    takes_pruned,
)
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.events import Request
from runward.handlers.model.fleet import (
    OrderEnd,
    RemoteStepBegun,
    RemoteStepCancelled,
    RemoteStepOrdered,
    RemoteStepOver,
    RemoteStepTaken,
)

_MOST_READ_AT_ONCE: Final = 10
"""Orders whose values or results are read at once: each may have 1 MiB."""

_TAKEN: Final = (
    "o.taken_at::text, extract(epoch from o.taken_at)::float8, coalesce(o.begun_take = o.takes, false)"
)
_LOOK: Final = (
    "with me as materialized (select runward.own_name(%s) as name)"  # noqa: S608 # our own words
    f" select true, o.origin, o.id, o.state, o.takes, o.cancelled, o.taken_by, false, {_TAKEN} from me join runward.orders o"
    " on o.origin = me.name where o.settled_at is null and o.state <> 'open'"
    f" union all select false, o.origin, o.id, o.state, o.takes, o.cancelled, o.taken_by, o.doubted, {_TAKEN} from me join runward.orders o"
    " on o.taken_by = me.name where o.state = 'taken'"
)
"""What this host ordered that somebody took or that is over, and what it took itself. `own_name` refuses an earlier program."""

_ENDS: Final = (
    "select id, takes, taken_by, state, declined::text, result::text, given_up::text from runward.orders"
    " where origin = %s and id = any(%s) and state in ('ended', 'declined', 'withdrawn')"
)
_ORDERED: Final = (
    "select o.origin, o.id, o.takes, o.body::text, o.cancelled, o.taken_at::text,"
    " extract(epoch from o.begin_by - clock_timestamp())::float8 from unnest(%s::text[], %s::text[]) as one(origin, id)"
    " join runward.orders o on o.origin = one.origin and o.id = one.id where o.state = 'taken'"
)
_LOST: Final = (
    "select o.origin, o.id, o.takes from unnest(%s::text[], %s::text[]) as one(origin, id)"
    " join runward.orders o on o.origin = one.origin and o.id = one.id where o.given_up ->> 'host' = %s"
)
_TAKE: Final = (
    "select origin, id, takes, body::text, cancelled, taken_at::text,"
    " extract(epoch from begin_by - clock_timestamp())::float8 from runward.take_orders(%s, %s)"
)


class Seen(NamedTuple):
    """A row of an order as it was when the program looked. `is_own`: this host ordered it; otherwise it took it."""

    is_own: bool
    origin: str
    id: str
    state: str
    takes: int
    is_cancelled: bool
    taken_by: str | None
    is_doubted: bool
    """The store may be older than this take. If it doesn't know it, it never begins it, and never gives it back."""
    taken_at: str | None
    """As the database says it: in one that was restored, an order may be taken again under the number of an earlier take."""
    taken_s: float | None
    """The same in Unix seconds."""
    is_begun: bool
    """Its taker says that the step begins."""

    @property
    def take(self) -> tuple[str, str, int]:
        return self.origin, self.id, self.takes


class Orders:
    """The orders of this host, over one connection."""

    looks_for = "orders"

    def __init__(self, state: Path, fleet: FleetSettings, number: int) -> None:
        self._state = state
        self._fleet = fleet
        self._number = number
        self._put: dict[str, tuple[str, str]] = {}
        """The requests that are in the inbox, or were, by their names: the origin and the id of the order that each is about. Those of orders
        that are no longer looked at are forgotten."""
        self.brought = 0
        """How many requests were put into the inbox."""
        self.is_full = False
        """Whether more might be taken if a slot were free."""
        self._unknown: list[str] = []
        """Orders that this host took, and whose takes its store may have lost."""

    @property
    def refused(self) -> str | None:
        """What is wrong with orders, for `status`."""
        if not self._unknown:
            return None
        return (
            f"this host took {named(self._unknown)} before its store or the database was restored, and does not know whether"
            " it began: it never begins it, and gives it to nobody; `runward fleet order give-up ID --note TEXT` ends it"
        )

    def look(self, connection: Connection, *, is_calm: bool = False) -> bool:
        """Put into the inbox what became of orders, and take further ones; returns whether there may be more to take.

        That an order of this host was taken, or begins, is awaited by nobody: it is left for a look that `is_calm`. Raises `psycopg.Error` and
        `OSError`.
        """
        with in_time(connection):
            rows = [Seen(*row) for row in connection.execute(_LOOK, (self._number,)).fetchall()]
        point("fleet.orders.looked")
        own, taken = [each for each in rows if each.is_own], [each for each in rows if not each.is_own]
        # After that look: what the database has, the store may know by now.
        with reading.reading(str(self._state)) as store:
            settled = {
                each.id for each in remote_steps(store, [row.id for row in own]) if each.wanted == "settled"
            }
            known = {
                (each.origin, each.id, each.take): each
                for each in orders_taken(store, [each.take for each in taken])
            }
            ran = takes_pruned(store, [each.take for each in taken])
            begun = takes_begun(store)
            free = self._fleet.slots - len(begun)
        present = {(each.origin, each.id) for each in rows} | {take[:2] for take in begun}
        self._put = {name: order for name, order in self._put.items() if order in present}
        if is_calm:
            self._tell_of_takers(own)
        self._tell_origin(
            connection, [each for each in own if each.state != "taken" and each.id not in settled]
        )
        strange = [each for each in taken if each.take not in known]
        new = [each for each in strange if not each.is_doubted and each.take not in ran]
        self._unknown = [f"{each.origin}/{each.id}" for each in strange if each not in new]
        cancelled = [
            each for each in taken if each.is_cancelled and (each.take in known or not each.is_doubted)
        ]
        self._tell_taker(connection, new, cancelled, known)
        self._tell_of_lost(connection, begun, taken)
        return self._take(connection, free - len(new))

    def _tell_of_takers(self, own: Sequence[Seen]) -> None:
        for each in own:
            if each.state == "taken" and each.taken_by is not None:
                facts: dict[str, Any] = {"id": each.id, "host": each.taken_by, "take": each.takes}
                name = _name("taken", each.id, each.takes)
                order = (each.origin, each.id)
                self._leave(order, RemoteStepTaken(name, time.time(), taken_at=each.taken_s, **facts))
                if each.is_begun:
                    name = _name("begun", each.id, each.takes)
                    self._leave(order, RemoteStepBegun(name, time.time(), **facts))

    def _tell_origin(self, connection: Connection, over: Sequence[Seen]) -> None:
        for some in _slices([each for each in over if _name("over", each.id) not in self._put]):
            given = (some[0].origin, [each.id for each in some])
            for row in _rows(connection, len(some), _ENDS, given):
                self._tell_end(some[0].origin, *row)

    def _tell_end(
        self,
        origin: str,
        order: str,
        take: int,
        host: str | None,
        end: OrderEnd,
        declined: str,
        result: str | None,
        given_up: str | None,
    ) -> None:
        whys, lost = foreign(declined), foreign(given_up)
        if isinstance(lost, dict):
            end, host, whys = "given_up", str(lost.get("host")), {str(lost.get("by")): lost.get("note")}
        request = RemoteStepOver(
            _name("over", order),
            time.time(),
            id=order,
            end=end,
            host=host,
            result=foreign(result),
            declined={**whys} if isinstance(whys, dict) else {},
        )
        try:
            self._leave((origin, order), request)
        except RequestTooLong:
            # More than any host of ours says. The step ends as one whose result can't be read.
            unreadable = RemoteStepOver(
                request.request, request.at, id=order, end=end, host=host, result=None, declined={}
            )
            self._leave((origin, order), unreadable)

    def _tell_taker(
        self,
        connection: Connection,
        new: Sequence[Seen],
        cancelled: Sequence[Seen],
        known: dict[tuple[str, str, int], TakenOrder],
    ) -> None:
        """Have the daemon decide on what it took and doesn't know, and end what is cancelled."""
        for some in _slices(
            [each for each in new if _name("order", *each.take, each.taken_at) not in self._put]
        ):
            given = ([each.origin for each in some], [each.id for each in some])
            for row in _rows(connection, len(some), _ORDERED, given):
                self._order(*row)
        for each in cancelled:
            row_here = known.get(each.take)
            if row_here is None or row_here.state == "begun":
                origin, order, take = each.take
                name = _name("cancel", origin, order, take)
                request = RemoteStepCancelled(name, time.time(), origin=origin, id=order, take=take)
                self._leave((origin, order), request)

    def _tell_of_lost(
        self, connection: Connection, begun: Sequence[tuple[str, str, int]], taken: Sequence[Seen]
    ) -> None:
        """Have the daemon end what it began and a person gave up since: its origin went on without it."""
        has = {each.take for each in taken}
        missing = [each for each in begun if each not in has]
        if not missing:
            return
        given = ([origin for origin, _, _ in missing], [order for _, order, _ in missing], self._fleet.host)
        with in_time(connection):
            lost = connection.execute(_LOST, given).fetchall()
        for origin, order, take in lost:
            name = _name("cancel", origin, order, take)
            request = RemoteStepCancelled(name, time.time(), origin=origin, id=order, take=take)
            self._leave((origin, order), request)

    def _order(
        self,
        origin: str,
        order: str,
        take: int,
        body: str,
        is_cancelled: bool,
        taken_at: str,
        begin_within: float | None,
    ) -> None:
        name = _name("order", origin, order, take, taken_at)
        read = foreign(body)
        facts: dict[str, Any] = {
            "origin": origin,
            "id": order,
            "take": take,
            "cancelled": is_cancelled,
            "begin_within": begin_within,
        }
        try:
            self._leave((origin, order), RemoteStepOrdered(name, time.time(), body=read, **facts))
        except RequestTooLong:
            # The daemon declines what has no body, so its origin learns of it.
            self._leave((origin, order), RemoteStepOrdered(name, time.time(), body=None, **facts))

    def _take(self, connection: Connection, most: int) -> bool:
        """Take orders, at most so many, and put them into the inbox; returns whether there may be more."""
        self.is_full = bool(self._fleet.accept) and most <= 0
        if not self._fleet.accept or most <= 0:
            return False
        count = min(most, _MOST_READ_AT_ONCE)
        rows = _rows(connection, count, _TAKE, (self._number, count))
        if rows:
            point("fleet.orders.taken")
        with reading.reading(str(self._state)) as store:
            ran = takes_pruned(store, [row[:3] for row in rows])
        for row in rows:
            if row[:3] not in ran:
                self._order(*row)
        return len(rows) == count

    def _leave(self, order: tuple[str, str], request: Request) -> None:
        """Put a request about an order into the inbox, once for each connection. Raises `RequestTooLong` and `OSError`."""
        if request.request not in self._put:
            # The database keeps it until the store has it: every connection begins with a look at that.
            leave_request(self._state, request, is_kept_elsewhere=True)
            self._put[request.request] = order
            self.brought += 1
            point("fleet.orders.put")


def _rows(
    connection: Connection, most: int, statement: str, given: tuple[object, ...]
) -> list[tuple[Any, ...]]:
    """At most so many rows, each with values of up to 1 MiB. So each has the time of a statement: else, over a slow network, what was
    taken would never be read, and neither begin nor be given back."""
    with in_time(connection, PATIENCE_S * most):
        return connection.execute(statement, given).fetchall()


def _name(what: str, *facts: object) -> str:
    """The name of a request, which follows from the fact that it tells."""
    return f"fleet-{what}-{hashlib.sha256('/'.join(map(str, facts)).encode()).hexdigest()[:24]}"


def foreign(text: str | None) -> JsonValue:
    """JSON that another host wrote; None if it is not what Runward reads as JSON."""
    value = None if text is None else read_json(text.encode())
    return None if isinstance(value, NotJson) else value


def _slices(rows: Sequence[Seen]) -> list[Sequence[Seen]]:
    return [rows[start : start + _MOST_READ_AT_ONCE] for start in range(0, len(rows), _MOST_READ_AT_ONCE)]
