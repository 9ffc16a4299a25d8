"""The list of a fleet's orders: who ordered what, and what became of it. A host sees those that it ordered or took."""

from datetime import datetime
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.orders import foreign
from runward.handlers.fleet.delivered import with_hashes
from runward.handlers.times import iso

_AT_ONCE: Final = 100
"""Rows that one statement reads: it has five seconds."""


class Order(NamedTuple):
    """An order as the database has it, whose clock counts. `placed_s` and `taken_s` say how long ago that was.

    `status` is that of its result, as its taker said it. `declined` has the reason of each host that gave it back, and `given_up` who said
    that its taker will not come back, with a note.
    """

    placed_at: datetime
    origin: str
    id: str
    host: str | None
    labels: list[str]
    skill: str
    state: str
    cancelled: bool
    takes: int
    taken_by: str | None
    taken_at: datetime | None
    begin_by: datetime | None
    declined: dict[str, str | None]
    status: str | None
    ended_at: datetime | None
    settled_at: datetime | None
    placed_s: float
    taken_s: float | None
    given_up: dict[str, JsonValue] | None
    begun: bool
    """Whether its taker says that the step begins."""
    receipt: str | None
    """The hash of the last receipt of its session, as its taker reported it; None if there is none yet."""
    artifacts: JsonValue
    """What its session left, as its taker reported it: with the hashes, once they are computed there."""

    def as_json(self) -> JsonValue:
        return {
            "origin": self.origin,
            "id": self.id,
            "host": self.host,
            "labels": [*self.labels],
            "skill": self.skill,
            "state": self.state,
            "cancelled": self.cancelled,
            "takes": self.takes,
            "taken_by": self.taken_by,
            "begun": self.begun,
            "status": self.status,
            "receipt": self.receipt,
            "artifacts": [*with_hashes(self.artifacts)],
            "declined": {**self.declined},
            "given_up": None if self.given_up is None else {**self.given_up},
            "placed_at": iso(self.placed_at.timestamp()),
            "taken_at": _moment(self.taken_at),
            "begin_by": _moment(self.begin_by),
            "ended_at": _moment(self.ended_at),
            "settled_at": _moment(self.settled_at),
        }


def _moment(at: datetime | None) -> str | None:
    return iso(None if at is None else at.timestamp())


_ORDERS: Final = (
    "select o.placed_at, o.origin, o.id, o.wanted_host,"
    " array(select label from unnest(o.wanted_labels) one(label) where label is not null), o.skill,"
    " case when o.given_up is null then o.state else 'given up' end, o.cancelled, o.takes, o.taken_by,"
    " o.taken_at, case when o.begin_by between '1000-01-01 00:00+00' and '9999-01-01 00:00+00' then o.begin_by end, o.declined,"
    " left(o.result ->> 'status', 200), o.ended_at, o.settled_at,"
    " extract(epoch from clock_timestamp() - o.placed_at)::float8,"
    " extract(epoch from clock_timestamp() - o.taken_at)::float8, o.given_up,"
    " o.begun_take is not null and o.begun_take = o.takes,"
    " (select r.hash from runward.receipts r where r.host = o.taken_by and r.session = left(o.result ->> 'session', 200)"
    "  order by r.segment desc, r.number desc limit 1),"
    " (select left_there.of_it::text from (select coalesce(nullif((select jsonb_path_query_array(s.body, '$.files[0 to 99]')"
    "   from runward.sessions s where s.host = o.taken_by and s.key = left(o.result ->> 'key', 1000)), '[]'),"
    "   o.result -> 'artifacts') as of_it) left_there where octet_length(left_there.of_it::text) <= 65536)"
    " from runward.orders o where (not %(only_open)s or o.state in ('open', 'taken')) and (%(at)s::timestamptz is null"
    " or o.placed_at <= %(at)s and (o.placed_at < %(at)s or (o.origin, o.id) > (%(origin)s, %(id)s)))"
    " order by o.placed_at desc, o.origin, o.id limit %(limit)s"
)


def orders(connection: Connection, most: int | None, *, only_open: bool = False) -> list[Order]:
    """The newest orders, at most `most`; or only those that are not over. Raises `psycopg.Error`."""
    found: list[Order] = []
    while count := _AT_ONCE if most is None else min(_AT_ONCE, most - len(found)):
        last = found[-1] if found else None
        given = {
            "only_open": only_open,
            "limit": count,
            "at": None if last is None else last.placed_at,
            "origin": None if last is None else last.origin,
            "id": None if last is None else last.id,
        }
        with in_time(connection):
            rows = connection.execute(_ORDERS, given, prepare=False).fetchall()
        # What another host says is left is of any depth, with numbers of any length.
        found += [Order(*row)._replace(artifacts=foreign(row[-1])) for row in rows]
        if len(rows) < count:
            break
    return found
