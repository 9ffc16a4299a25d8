"""How what is owed to the fleet is told: in batches. What the database refuses for what is in it is told row by row, and named."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Generic, TypeVar

import psycopg

from runward.daemon.fleet.connecting import REFUSED, Connection, in_one_line
from runward.daemon.store import reading
from runward.daemon.store.tables.fleet_outbox import Owed, owed

MOST_AT_ONCE: Final = 100
"""Rows that are told in one transaction."""

_FEWER: Final[dict[tuple[Path, str], int]] = {}
"""By state and kind, how many rows are told in the next transaction, if fewer. It outlives a connection: over a slow network, as many as
usual may take longer than one has, each time again."""

Facts = TypeVar("Facts")


class Contradicted(Exception):
    """What the database says counts, however often this host says something else. The message says why."""


class Delivery(Generic[Facts]):
    """What is owed of a kind, over one connection.

    `read` makes of rows what is told of them. `tell` tells it in one transaction: it raises `psycopg.Error`, and `Contradicted`.
    """

    def __init__(
        self,
        state: Path,
        kind: str,
        read: Callable[[sqlite3.Connection, list[Owed]], Facts],
        tell: Callable[[Connection, Facts], None],
    ) -> None:
        self._state = state
        self._kind = kind
        self._read = read
        self._tell = tell
        self._reached = 0
        """The last version of the outbox that was dealt with. Further ones are higher."""
        self.refused: str | None = None
        """What the database refused for what is in it."""

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell what is owed: each time the versions that the database has by now. Raises `psycopg.Error`."""
        is_alone = False
        while True:
            fewer = _FEWER.get((self._state, self._kind), MOST_AT_ONCE)
            most = 1 if is_alone else fewer
            with reading.reading(str(self._state)) as store:
                rows = owed(store, self._kind, self._reached, most)
                if not rows:
                    return
                # In the same snapshot: what is told of each is that of its version.
                facts = self._read(store, rows)
            versions = [row.version for row in rows]
            try:
                self._tell(connection, facts)
            except (*REFUSED, Contradicted) as error:
                # The others must not wait for it, so each goes by itself from here on.
                is_alone = True
                if len(rows) > 1:
                    yield []
                    continue
                what = f"{self._kind} {rows[0].subject}"
                if isinstance(error, Contradicted):
                    self.refused = f"the database says something else of {what}: {error}"
                else:
                    self.refused = f"the database refuses {what}, which stays owed: {in_one_line(error)}"
                    versions = []
            except psycopg.OperationalError:
                _FEWER[self._state, self._kind] = max(1, len(rows) // 2)
                raise
            if fewer < MOST_AT_ONCE:
                _FEWER[self._state, self._kind] = fewer + 1
            self._reached = rows[-1].version
            yield versions
