"""A double of the fleet's database, as far as orders go: in this process, and it fails when it is told to.

It passes the same tests as the database (`test_double.py`, `test_restores.py`), so what the simulation finds with it holds for the
database, too. What it does once it was restored is in `older_double.py`.
"""

import copy
import json
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import psycopg
from tests.daemon.fleet import older_double

from runward.daemon.fleet import orders

FENCED: Final = "another program reports for this host"
_OVER: Final = ("ended", "declined", "withdrawn")
_CALL: Final = re.compile(r"select (?:(?P<columns>.+) from )?runward\.(?P<function>\w+)\(")


@dataclass
class Row:
    """An order. What is JSON is a value here."""

    origin: str
    id: str
    wanted_host: str | None
    wanted_labels: list[str]
    skill: str
    body: Any
    begin_by: float | None
    state: str = "open"
    cancelled: bool = False
    takes: int = 0
    begun_take: int | None = None
    taken_by: str | None = None
    declined: dict[str, str] = field(default_factory=dict)
    result: Any = None
    settled: bool = False
    given_up: Any = None
    doubted: bool = False
    taken_at: str | None = None

    def is_for(self, host: str, labels: set[str]) -> bool:
        if host in self.declined:
            return False
        return self.wanted_host == host if self.wanted_host is not None else {*self.wanted_labels} <= labels


class Pulse(NamedTuple):
    """Where a host has something to look for, how many changes of orders there were, and whether hosts have to say again what they know."""

    words: list[str]
    changes: int
    is_older: bool


@dataclass
class Kept:
    """What the database keeps of a host: its changes of orders, whether it takes orders, and how far its store had come."""

    changes: int = 0
    accepts: bool = True
    restored: int = 0
    reached: int = 0


@dataclass
class Content:
    """All that a copy of the database has."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    """In the order in which they were placed."""
    numbers: dict[str, int] = field(default_factory=dict)
    say_begun: set[str] = field(default_factory=set)
    """The hosts whose programs say when a step begins."""
    kept: dict[str, Kept] = field(default_factory=dict)
    claims: dict[tuple[str, str], older_double.Claim] = field(default_factory=dict)
    unheard: dict[str, older_double.Unheard] = field(default_factory=dict)
    known: str | None = None
    """The identity under which the fleet works."""


@dataclass
class Database:
    """The orders of a fleet of these hosts, with their labels. `now` is its clock (seconds)."""

    labels: dict[str, set[str]]
    now: Callable[[], float] = lambda: 0.0
    content: Content = field(default_factory=Content)
    identity: str = "the first"
    restores: int = 0
    moments: int = 0
    times_older: int = 0
    """How often hosts had to say again what they know."""

    def __post_init__(self) -> None:
        self.content.kept = {host: Kept() for host in self.labels}

    @property
    def rows(self) -> dict[tuple[str, str], Row]:
        return self.content.rows

    def copy(self) -> Content:
        return copy.deepcopy(self.content)

    def restore(self, copied: Content, *, as_another: bool) -> None:
        """Bring it to what it was. `as_another`: as a dump is restored, in another database; else as a copy of its files."""
        self.content = copy.deepcopy(copied)
        if as_another:
            self.restores += 1
            self.identity = f"restored {self.restores} times"

    def greet(self, host: str, *_: object) -> int:
        self.content.say_begun.discard(host)
        numbers = self.content.numbers
        numbers[host] = numbers.get(host, 0) + 1
        return numbers[host]

    def own_name(self, host: str, number: int) -> str:
        if self.content.numbers.get(host) != number:
            raise psycopg.errors.RaiseException(FENCED)
        return host

    def moment(self) -> str:
        """It never comes again, whatever is restored."""
        self.moments += 1
        return f"moment {self.moments}"

    def changed(self, own: str, *rows: Row) -> None:
        """This host has changed these: that is counted, and the host that claims one that nobody has gets it."""
        if rows and own in self.content.kept:
            self.content.kept[own].changes += 1
        for row in rows:
            older_double.heed_claim(self, row)

    def place_order(
        self,
        own: str,
        name: str,
        host: str | None,
        labels: Sequence[str],
        skill: str,
        body: Any,
        within: float | None,
    ) -> str:
        if (own, name) not in self.rows:
            begin_by = None if within is None else self.now() + within
            new = Row(own, name, host, [*labels], skill, _value(body), begin_by)
            self.rows[own, name] = new
            self.changed(own, new)
        elif self.rows[own, name].settled:
            self.rows[own, name].settled = False
            self.changed(own, self.rows[own, name])
        return self.rows[own, name].state

    def take_orders(self, own: str, most: int) -> list[Row]:
        if self.content.known not in (None, self.identity) or older_double.keeps_from_taking(self, own):
            return []
        fitting = [
            row
            for row in self.rows.values()
            if row.state == "open"
            and (row.begin_by is None or row.begin_by > self.now())
            and row.is_for(own, self.labels[own])
            and not row.cancelled
            and not older_double.is_unheard(self, row.origin)
        ][:most]
        for row in fitting:
            row.state, row.taken_by, row.takes, row.taken_at = "taken", own, row.takes + 1, self.moment()
            row.begun_take = row.begun_take if own in self.content.say_begun else row.takes
        self.changed(own, *fitting)
        return fitting

    def begin_order(self, own: str, origin: str, name: str, take: int) -> bool:
        row = self.rows.get((origin, name))
        is_its = row is not None and (row.state, row.taken_by, row.takes) == ("taken", own, take)
        if row is not None and is_its and row.begun_take != take:
            row.begun_take = take
            self.changed(own, row)
        return True

    def give_back(self, own: str, origin: str, name: str, take: int, reason: str) -> bool:
        row = self.rows.get((origin, name))
        if row is None:
            return False
        if (row.state, row.taken_by, row.takes) != ("taken", own, take):
            return own in row.declined
        row.taken_by = None
        row.declined[own] = reason
        is_for_another = row.wanted_host is None and any(row.is_for(*each) for each in self.labels.items())
        row.state = "withdrawn" if row.cancelled else "open" if is_for_another else "declined"
        self.changed(own, row)
        return True

    def end_order(self, own: str, origin: str, name: str, take: int, result: Any) -> bool:
        row = self.rows.get((origin, name))
        if row is not None and (row.state, row.taken_by, row.takes) == ("taken", own, take):
            row.state, row.result = "ended", _value(result)
            self.changed(own, row)
            return True
        if older_double.keep_result(self, (origin, name), own, take, _value(result)):
            return True
        return row is not None and (row.state, row.taken_by, row.takes, row.result) == (
            *("ended", own, take),
            _value(result),
        )

    def cancel_order(self, own: str, name: str) -> str | None:
        row = self.rows.get((own, name))
        if row is None:
            return None
        if row.state in ("open", "taken"):
            row.cancelled = True
            # In an older database, it may have been taken all the same.
            if row.state == "open" and not older_double.waited_for(self):
                row.state = "withdrawn"
            self.changed(own, row)
        return row.state

    def settle_order(self, own: str, name: str) -> bool:
        row = self.rows.get((own, name))
        if row is None:
            return False
        if row.state in _OVER and not row.settled:
            row.settled = True
            self.changed(own, row)
        return row.settled

    def give_up_order(self, own: str, origin: str, name: str, note: str) -> str | None:
        row = self.rows.get((origin, name))
        if row is None:
            return None
        if row.state == "taken":
            row.given_up = {"host": row.taken_by, "take": row.takes, "by": own, "note": note}
            row.state, row.taken_by = "declined", None
            self.changed(own, row)
        return row.state if row.given_up is None else "given_up"

    def pulse(self, own: str, *_: object) -> list[Pulse]:
        self.content.say_begun.add(own)
        is_something = any(
            row.state == "open"
            or (row.origin == own and not row.settled)
            or (row.taken_by == own and row.state == "taken")
            for row in self.rows.values()
        )
        changes = sum(each.changes for each in self.content.kept.values())
        return [Pulse(["orders"] if is_something else [], changes, bool(self.content.unheard))]

    def compare_record(
        self,
        own: str,
        takes_orders: bool,
        restored: int,
        reached: int,
        identity: str | None,
        seen: Any,
    ) -> list["older_double.Compared"]:
        given = (takes_orders, restored, reached, identity, _value(seen))
        return [older_double.compare_record(self, own, *given)]

    def took_order(self, own: str, origin: str, name: str, take: int) -> str:
        return older_double.took_order(self, own, (origin, name), take)

    def still_wanted(self, own: str, names: Sequence[str]) -> None:
        older_double.still_wanted(self, own, names)

    def said_again(self, own: str) -> None:
        older_double.said_again(self, own)

    def seen_by(self, host: str) -> list[Row]:
        """As the policy has it."""
        return [
            row
            for row in self.rows.values()
            if host in (row.origin, row.taken_by, (row.given_up or {}).get("host"))
        ]


class Answer:
    """What a statement came to."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)


def _no_fault(moment: str) -> None:
    """Nothing fails."""


class DoubleConnection:
    """A connection with the login of a host, as far as the program uses one.

    `fault` is called before and after each statement, and after each commit; it may raise `psycopg.OperationalError`.
    """

    def __init__(self, database: Database, host: str, fault: Callable[[str], None] = _no_fault) -> None:
        self._database, self._host, self._fault = database, host, fault
        self._ends = socket.socketpair()
        self._is_in_transaction = False

    def fileno(self) -> int:
        return self._ends[0].fileno()

    def close(self) -> None:
        for end in self._ends:
            end.close()

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = self._database.copy()
        self._is_in_transaction = True
        try:
            yield
        except BaseException:
            self._database.content = before
            raise
        finally:
            self._is_in_transaction = False
        self._fault("committed")

    def execute(self, statement: str | bytes, given: Sequence[Any] = ()) -> Answer:
        text = statement.decode() if isinstance(statement, bytes) else statement
        self._fault("asked")
        answer = Answer(self._rows(text, given))
        if not self._is_in_transaction:
            self._fault("committed")
        return answer

    def _rows(self, text: str, given: Sequence[Any]) -> list[tuple[Any, ...]]:
        if text in _READS:
            return _READS[text](self._database, self._host, *given)
        call = _CALL.match(text)
        if call is None:
            columns = re.fullmatch(r"select (.+) from runward\.orders", text)
            assert columns is not None, f"the double does not know {text}"
            return [
                _columns(columns[1], row, self._database.now) for row in self._database.seen_by(self._host)
            ]
        if call["function"] == "greet":
            return [(self._database.greet(self._host, *given),)]
        own = self._database.own_name(self._host, given[0])
        found = getattr(self._database, call["function"])(own, *given[1:])
        if call["columns"] is None:
            return [(found,)]
        return [_columns(call["columns"], row, self._database.now) for row in found]


def _value(given: Any) -> Any:
    """A value that is handed over as JSON."""
    if isinstance(given, str):
        return json.loads(given)
    return getattr(given, "obj", given)


_LEFT: Final = "extract(epoch from begin_by - clock_timestamp())::float8"


def _columns(names: str, row: "tuple[Any, ...] | Row", now: Callable[[], float]) -> tuple[Any, ...]:
    if names == "*":
        assert isinstance(row, tuple), "a row of an answer"
        return tuple(row)
    return tuple(_column(re.sub(r"^\w+\.", "", name.strip()), row, now) for name in names.split(","))


def _column(name: str, row: "tuple[Any, ...] | Row", now: Callable[[], float]) -> Any:
    if name == _LEFT:
        assert isinstance(row, Row)
        return None if row.begin_by is None else row.begin_by - now()
    value = getattr(row, name.removesuffix("::text"))
    return json.dumps(value) if name.endswith("::text") and value is not None else value


def _look(database: Database, host: str, number: int) -> list[tuple[Any, ...]]:
    own = database.own_name(host, number)
    facts = "origin, id, state, takes, cancelled, taken_by"
    ordered = [
        row for row in database.rows.values() if row.origin == own and not row.settled and row.state != "open"
    ]
    taken = [row for row in database.rows.values() if row.taken_by == own and row.state == "taken"]
    seen = [(True, row) for row in ordered] + [(False, row) for row in taken]
    return [
        (
            is_own,
            *_columns(facts, row, database.now),
            not is_own and row.doubted,
            row.taken_at,
            None if row.taken_at is None else database.now(),
            row.begun_take == row.takes,
        )
        for is_own, row in seen
    ]


def _ends(database: Database, host: str, origin: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
    facts = "id, takes, taken_by, state, declined::text, result::text, given_up::text"
    return [
        _columns(facts, row, database.now)
        for row in database.seen_by(host)
        if row.origin == origin and row.id in names and row.state in _OVER
    ]


def _ordered(
    database: Database, host: str, origins: Sequence[str], names: Sequence[str]
) -> list[tuple[Any, ...]]:
    wanted = {*zip(origins, names, strict=True)}
    facts = f"origin, id, takes, body::text, cancelled, taken_at::text, {_LEFT}"
    return [
        _columns(facts, row, database.now)
        for row in database.seen_by(host)
        if (row.origin, row.id) in wanted and row.state == "taken"
    ]


def _lost(
    database: Database, host: str, origins: Sequence[str], names: Sequence[str], own: str
) -> list[tuple[Any, ...]]:
    wanted = {*zip(origins, names, strict=True)}
    return [
        (row.origin, row.id, row.takes)
        for row in database.seen_by(host)
        if (row.origin, row.id) in wanted and (row.given_up or {}).get("host") == own
    ]


_READS: Final[dict[str, Callable[..., list[tuple[Any, ...]]]]] = {
    orders._LOOK: _look,
    orders._ENDS: _ends,
    orders._ORDERED: _ordered,
    orders._LOST: _lost,
}
"""What the program asks for besides calling functions."""
