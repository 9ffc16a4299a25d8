"""Reports of sessions: what the outbox owes of them, delivered as they are now."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from psycopg.types.json import Jsonb

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings
from runward.daemon.faults import point
from runward.daemon.fleet.bodies import VERSION_BITS, bodies
from runward.daemon.fleet.connecting import REFUSED, Connection, in_one_line, in_time
from runward.daemon.store import reading
from runward.daemon.store.tables.fleet_outbox import SESSION, Owed, owed

MOST_AT_ONCE: Final = 100
"""Rows that are delivered in one transaction."""


class SessionReports:
    """The reports of this host's sessions, over one connection."""

    looks_for: str | None = None

    def __init__(
        self, state: Path, settings: Settings, fleet: FleetSettings, epoch: int, number: int
    ) -> None:
        self._state = state
        self._settings = settings
        self._fleet = fleet
        self._epoch = epoch
        self._number = number
        self._reached = 0
        """The last version of the outbox that this connection dealt with. Further ones are higher."""
        self._most = MOST_AT_ONCE
        self.refused: str | None = None

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Deliver what is owed: each time the versions that the database has by now. Raises `psycopg.Error`."""
        self._most = MOST_AT_ONCE
        while True:
            with reading.reading(str(self._state)) as store:
                rows = owed(store, SESSION, self._reached, self._most)
                # In the same snapshot: each body is that of its version.
                reports = self._reports(store, rows)
            if not rows:
                return
            point("fleet.read")
            versions = self._said(connection, rows, reports)
            yield versions
            if versions:
                point("fleet.told")

    def look(self, connection: Connection) -> bool:
        """The database has nothing for this host here."""
        return False

    def _said(self, connection: Connection, rows: list[Owed], reports: list[JsonValue]) -> list[int]:
        try:
            with in_time(connection), connection.pipeline(), connection.transaction():
                connection.execute("select runward.own_name(%s)", (self._number,))
                connection.execute("select runward.report_sessions(%s)", (Jsonb(reports),))
                point("fleet.sent")
        except REFUSED as error:
            # For what is in a row. The others must not wait for it, so each goes by itself from here on.
            if len(rows) == 1:
                self.refused = (
                    f"the database refuses {rows[0].subject}, which stays owed: {in_one_line(error)}"
                )
                self._reached = rows[0].version
            self._most = 1
            return []
        point("fleet.committed")
        self._reached = rows[-1].version
        return [each.version for each in rows]

    def _reports(self, store: sqlite3.Connection, rows: list[Owed]) -> list[JsonValue]:
        made = bodies(store, self._settings, self._fleet.titles, [each.subject for each in rows])
        reports: list[JsonValue] = []
        for each in rows:
            body = made.get(each.subject)
            reports.append(
                {
                    "key": each.subject,
                    "version": (self._epoch << VERSION_BITS) + each.version,
                    "started_at": None if body is None else body.started_at,
                    "body": None if body is None else body.value,
                }
            )
        return reports
