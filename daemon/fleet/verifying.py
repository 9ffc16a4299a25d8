"""Whether the chains of hosts are whole, recomputed from what the fleet's database has, and whether the own one is that of the store.

Rows are read in pages, so a chain may be of any length. The store is looked at after each page: what the database had then, the
store must have.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.receipts import Store
from runward.daemon.store.tables.events import hash_of_event, last_event
from runward.daemon.store.tables.receipts import chained_hashes, how_many_receipts

AT_ONCE: Final = 5000
"""Receipts that one statement reads: it has five seconds."""


_Row: TypeAlias = tuple[int, str, str | None]


class Fork(NamedTuple):
    """A segment that begins another chain. `behind` is the last receipt that it has in common with the one before it."""

    segment: int
    behind: int | None

    def as_json(self) -> JsonValue:
        return {"segment": self.segment, "behind": self.behind}


class Chain(NamedTuple):
    """What was found of a host's chains. `head` is the hash of the last receipt of its segment.

    `owed` are the receipts that the store has and the fleet lacks; None if the chain was not compared with a store.
    """

    host: str
    segment: int
    receipts: int
    head: str | None
    heads: int
    forks: tuple[Fork, ...]
    owed: int | None
    problems: tuple[str, ...]

    def as_json(self) -> JsonValue:
        return {
            "host": self.host,
            "valid": not self.problems,
            "segment": self.segment,
            "receipts": self.receipts,
            "head": self.head,
            "heads": self.heads,
            "forks": [each.as_json() for each in self.forks],
            "is_compared": self.owed is not None,
            "owed": self.owed,
            "problems": [*self.problems],
        }


_HOSTS: Final = (
    "select name, segment from runward.hosts where %(host)s::text is null or name = %(host)s order by name"
)
_RECEIPTS: Final = (
    "select number, hash, prev from runward.receipts"
    " where host = %s and segment = %s and number > %s order by number limit %s"
)
_HEADS: Final = "select number, hash from runward.heads where host = %s and segment = %s and number > %s order by number limit %s"
_FORK: Final = (
    "select later.number from runward.receipts later join runward.receipts earlier on earlier.host = later.host"
    " and earlier.segment = later.segment - 1 and earlier.number = later.number and earlier.hash = later.hash"
    " where later.host = %s and later.segment = %s order by later.number desc limit 1"
)


def verified(connection: Connection, host: str | None, own: str | None, store: Store) -> Iterator[Chain]:
    """The chains of all hosts, or of one, by name; that of the host `own` is compared with the store.

    Raises `psycopg.Error` and what `store` raises.
    """
    with in_time(connection):
        found = connection.execute(_HOSTS, {"host": host}).fetchall()
    for name, segment in found:
        yield _chain(connection, name, segment, store if name == own else None)


def _chain(connection: Connection, host: str, segment: int, store: Store | None) -> Chain:
    problems: list[str] = []
    for earlier in range(1, segment):
        _, wrong = _followed(connection, host, earlier, None)
        problems += wrong
    last, wrong = _followed(connection, host, segment, store)
    problems += wrong
    heads, wrong = _heads(connection, host, segment, store)
    owed = None
    if store is not None:
        with store() as now:
            owed = how_many_receipts(now, last.number)
    forks = tuple(_fork(connection, host, later) for later in range(2, segment + 1))
    return Chain(host, segment, last.receipts, last.hash, heads, forks, owed, (*problems, *wrong))


class _Last(NamedTuple):
    """Where the last receipt is that was read, and how many there were."""

    number: int
    hash: str | None
    receipts: int


def _followed(
    connection: Connection, host: str, segment: int, store: Store | None
) -> tuple[_Last, list[str]]:
    """The end of a segment, and what is wrong with it: the first break, and the first difference to the store."""
    last, problems, differs = _Last(0, None, 0), list[str](), False
    while True:
        with in_time(connection):
            rows: list[_Row] = connection.execute(_RECEIPTS, (host, segment, last.number, AT_ONCE)).fetchall()
        if rows:
            # Whole columns are compared at once: of a hundred thousand receipts, nothing is wrong with nearly all.
            before = [last.hash, *(row[1] for row in rows[:-1])]
            if [row[2] for row in rows] != before:
                problems += _breaks(rows, before, segment)
            if store is not None and not differs:
                difference = _difference(rows, store, last.number)
                if difference is not None:
                    differs = True
                    problems.append(difference)
            last = _Last(rows[-1][0], rows[-1][1], last.receipts + len(rows))
        if len(rows) < AT_ONCE:
            return last, problems


def _breaks(rows: Sequence[_Row], before: Sequence[str | None], segment: int) -> list[str]:
    return [
        f"receipt {number} of segment {segment} names {prev} before it, and {expected} is"
        for (number, _, prev), expected in zip(rows, before, strict=True)
        if prev != expected
    ]


def _difference(rows: Sequence[_Row], store: Store, after: int) -> str | None:
    """The first receipt that the store has otherwise, or not at all."""
    with store() as now:
        own = chained_hashes(now, after, len(rows))
    if own == rows:
        return None
    for place, (number, digest, prev) in enumerate(rows):
        here = own[place] if place < len(own) else None
        if here != (number, digest, prev):
            has = "has nothing more" if here is None else f"has receipt {here[0]}, {here[1]}"
            return f"the fleet has receipt {number}, {digest}, and the store here {has}"
    return None


def _heads(connection: Connection, host: str, segment: int, store: Store | None) -> tuple[int, list[str]]:
    """How many heads of the chain of events there are, and the first one that the store has otherwise, or not at all."""
    count, last, problems = 0, 0, list[str]()
    while True:
        with in_time(connection):
            rows: list[tuple[int, str]] = connection.execute(
                _HEADS, (host, segment, last, AT_ONCE)
            ).fetchall()
        if store is not None and not problems and rows:
            with store() as now:
                newest = last_event(now).seq
                for number, digest in rows:
                    here = hash_of_event(now, number)
                    # One that was pruned can't be compared.
                    if here != digest and (here is not None or newest < number):
                        has = "ends before it" if here is None else f"has {here}"
                        problems = [f"the fleet has event {number}, {digest}, and the store here {has}"]
                        break
        count += len(rows)
        if len(rows) < AT_ONCE:
            return count, problems
        last = rows[-1][0]


def _fork(connection: Connection, host: str, segment: int) -> Fork:
    with in_time(connection):
        row = connection.execute(_FORK, (host, segment)).fetchone()
    return Fork(segment, None if row is None else int(row[0]))
