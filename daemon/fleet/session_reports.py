"""Reports of sessions: what the outbox owes of them, delivered as they are now."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from runward.config.settings import FleetSettings, Settings
from runward.daemon.faults import point
from runward.daemon.fleet.bodies import VERSION_BITS, bodies
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.delivery import Delivery
from runward.daemon.store.tables.fleet_outbox import SESSION, Owed


class SessionReports:
    """The reports of this host's sessions, over one connection."""

    def __init__(
        self, state: Path, settings: Settings, fleet: FleetSettings, epoch: int, number: int
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._epoch = epoch
        self._number = number
        self._delivery = Delivery(state, SESSION, self._reports, self._tell)

    @property
    def refused(self) -> str | None:
        """What the database refused for what is in it."""
        return self._delivery.refused

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Deliver what is owed: each time the versions that the database has by now. Raises `psycopg.Error`."""
        for versions in self._delivery.say(connection):
            yield versions
            if versions:
                point("fleet.told")

    def _tell(self, connection: Connection, reports: str) -> None:
        point("fleet.read")
        with in_time(connection), connection.pipeline(), connection.transaction():
            connection.execute("select runward.own_name(%s)", (self._number,))
            connection.execute("select runward.report_sessions(%s::jsonb)", (reports,))
            point("fleet.sent")
        point("fleet.committed")

    def _reports(self, store: sqlite3.Connection, rows: list[Owed]) -> str:
        """A list, in JSON."""
        made = bodies(store, self._settings, self._fleet.titles, [each.subject for each in rows])
        reports = []
        for each in rows:
            key, version = json.dumps(each.subject), (self._epoch << VERSION_BITS) + each.version
            # One that is no longer recorded has no body.
            at, body = made.get(each.subject, ("null", "null"))
            reports.append(f'{{"key": {key}, "version": {version}, "started_at": {at}, "body": {body}}}')
        return f"[{','.join(reports)}]"
