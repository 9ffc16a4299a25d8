"""The receipts of this host, as the program reports them, and every hour the head of the chain of events.

The database says how far it is, so what it lacks follows from the store alone. What does not follow what it has is kept back: then
the store was restored from a backup, or replaced.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import psycopg
from psycopg.types.json import Jsonb

from runward.config.settings import FleetSettings
from runward.daemon.faults import point
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.delivery import MOST_AT_ONCE
from runward.daemon.store import reading
from runward.daemon.store.tables.events import hash_of_event, last_event
from runward.daemon.store.tables.fleet_outbox import RECEIPT, owed
from runward.daemon.store.tables.receipts import ReceiptLink, hash_of_receipt, receipt_links
from runward.handlers.model.fleet import storable

HEAD_PERIOD_S: Final = 3600.0
"""Seconds between two heads, by this machine's clock that nobody sets."""

_LONGEST: Final = 200
"""Characters of a session's id: the schema keeps no more."""

DOES_NOT_FOLLOW: Final = "RW004"

WHAT_TO_DO: Final = (
    "the store was restored from a backup, or replaced; `runward fleet verify` shows where,"
    " and `runward fleet join --new-segment` begins another chain beside the earlier one"
)

_KNOWN: Final = (
    "select h.segment, r.number, r.hash, e.number, e.hash from runward.hosts h"
    " left join lateral (select number, hash from runward.receipts"
    "  where host = h.name and segment = h.segment order by number desc limit 1) r on true"
    " left join lateral (select number, hash from runward.heads"
    "  where host = h.name and segment = h.segment order by number desc limit 1) e on true where h.name = %s"
)


class Known(NamedTuple):
    """What the database has of this host: its segment, the last receipt of that, and the last head of the chain of events."""

    segment: int
    receipt: int | None
    receipt_hash: str | None
    event: int | None
    event_hash: str | None


def missing(store: sqlite3.Connection, known: Known) -> str | None:
    """What the database has and the store does not; None if the store goes on where the database is."""
    if known.receipt is not None and hash_of_receipt(store, known.receipt) != known.receipt_hash:
        return f"receipt {known.receipt}"
    if known.event is None:
        return None
    here = hash_of_event(store, known.event)
    # One that was pruned can't be compared.
    if here != known.event_hash and (here is not None or last_event(store).seq < known.event):
        return f"event {known.event}"
    return None


Store: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""The store as it is when it is called."""


def begin_segment(connection: Connection, host: str, store: Store) -> int | None:
    """Begin another segment of this host; returns its number, None if the store goes on where the database is.

    Raises `psycopg.Error` and what `store` raises.
    """
    with in_time(connection):
        row = connection.execute(_KNOWN, (host,)).fetchone()
    assert row is not None, "the login is that of the host"
    known = Known(*row)
    with store() as now:
        if missing(now, known) is None:
            return None
    with in_time(connection):
        row = connection.execute("select runward.begin_segment(%s)", (known.segment,)).fetchone()
    assert row is not None, "a function returns a row"
    return int(row[0])


class Receipts:
    """The chains of this host, over one connection."""

    def __init__(self, state: Path, fleet: FleetSettings, number: int) -> None:
        self._state = state
        self._host = fleet.host
        self._number = number
        self._known: Known | None = None
        self._due = 0.0
        """When the next head is (monotonic)."""
        self._reached = 0
        """The last version of the outbox that was dealt with."""
        self.refused: str | None = None
        """Why nothing more of them can be delivered."""

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell the database what it lacks: each time the versions that it has by now. Raises `psycopg.Error`."""
        if self._known is None or self.refused is not None or time.monotonic() >= self._due:
            self._known = self._compare(connection)
        while self._known is not None and self.refused is None:
            with reading.reading(str(self._state)) as store:
                links = receipt_links(store, self._known.receipt or 0, MOST_AT_ONCE)
                rows = owed(store, RECEIPT, self._reached, MOST_AT_ONCE)
            if links:
                self._known = self._deliver(connection, self._known, links)
                if self._known is None or self.refused is not None:
                    return
            there = [row for row in rows if int(row.subject) <= (self._known.receipt or 0)]
            if there:
                self._reached = there[-1].version
                yield [row.version for row in there]
            elif not links:
                return

    def _compare(self, connection: Connection) -> Known | None:
        """What the database has, with the head of now; None if the segment is another one meanwhile."""
        self.refused = None
        with in_time(connection):
            row = connection.execute(_KNOWN, (self._host,)).fetchone()
        assert row is not None, "greet has found the host"
        known = Known(*row)
        with reading.reading(str(self._state)) as store:
            lost, head = missing(store, known), last_event(store)
        if lost is not None:
            self.refused = f"the fleet has {lost} of this host, which its store does not have: {WHAT_TO_DO}"
            return known
        if head.seq and head.seq != known.event:
            call = "select runward.report_head(%s, %s, %s, %s)"
            if not self._asked(connection, call, known.segment, head.seq, head.hash):
                return None
        self._due = time.monotonic() + HEAD_PERIOD_S
        return known

    def _deliver(self, connection: Connection, known: Known, links: Sequence[ReceiptLink]) -> Known | None:
        rows = [
            {
                "number": each.number,
                "hash": each.receipt_hash,
                "prev": each.prev,
                "session": storable(each.session_key.rpartition("/")[2][:_LONGEST]),
                "attempt": each.attempt,
            }
            for each in links
        ]
        point("fleet.chains.read")
        call = "select runward.report_receipts(%s, %s, %s)"
        if not self._asked(connection, call, known.segment, Jsonb(rows)):
            return None
        point("fleet.chains.committed")
        return known._replace(receipt=links[-1].number, receipt_hash=links[-1].receipt_hash)

    def _asked(self, connection: Connection, call: str, *given: object) -> bool:
        """Whether the database took it; not if a person began another segment meanwhile."""
        try:
            with in_time(connection):
                row = connection.execute(call, (self._number, *given)).fetchone()
        except psycopg.Error as error:
            if error.sqlstate != DOES_NOT_FOLLOW:
                raise
            self.refused = (
                f"the fleet's database refuses the next receipt, which does not follow: {WHAT_TO_DO}"
            )
            return True
        return row is not None and bool(row[0])
