"""The program that reports to the fleet, which the daemon starts: `program STATE`.

Its first line on stdin has the settings and the daemon's epoch, and each further one is a hint that there may be more to
report. On stdout it says, as lines of JSON, which versions of the outbox the database has, and what is wrong. It ends with the
daemon. It writes nothing but the database, and requests into the inbox: killed at any point, it loses nothing.
"""

import json
import os
import select
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import psycopg
from psycopg.types.json import Jsonb

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings, settings_from_json
from runward.daemon import __version__
from runward.daemon.faults import from_environment, point
from runward.daemon.fleet.bodies import VERSION_BITS, bodies
from runward.daemon.fleet.chains import Chains
from runward.daemon.fleet.connecting import (
    Connection,
    DatabaseRefuses,
    DatabaseUnreachable,
    as_host,
    in_one_line,
    in_time,
)
from runward.daemon.fleet.events import Events
from runward.daemon.fleet.offers import Offers
from runward.daemon.fleet.orders import REFUSED, Orders
from runward.daemon.fleet.outcomes_and_approvals import OutcomesAndApprovals
from runward.daemon.fleet.record import Record
from runward.daemon.processes.client_gone import end_with_client
from runward.daemon.processes.giving_way import give_way
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables.fleet_outbox import SESSION, Owed, how_many_owed, owed
from runward.daemon.views.daemon_report import report_of

MOST_AT_ONCE: Final = 100
"""Rows that are delivered in one transaction."""

PERIOD_S: Final = 30.0
"""Seconds between two signs of life, and two looks without a hint."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Seconds until the next connection after a failure, and at most: the pause doubles."""

_MOST_PROBLEMS: Final = 20
_MOST_PROBLEM: Final = 1000
_MOST_TROUBLE: Final = 2000
"""Characters. What a database says may be longer."""


def main(state: Path) -> None:
    """Report until the daemon has ended."""
    from_environment(os.environ.get("RUNWARD_FAULT"))
    told = json.loads(_first_line())
    end_with_client()
    give_way()
    settings = settings_from_json(told["settings"])
    assert settings is not None, "the daemon is of the same version"
    assert settings.fleet is not None, "without a fleet the daemon starts no program"
    Reports(state, settings, settings.fleet, int(told["epoch"])).run()


def _first_line() -> bytes:
    content = b""
    while b"\n" not in content:
        piece = os.read(0, 1 << 16)
        if not piece:
            sys.exit(0)
        content += piece
    # What is behind it are hints, which the first look doesn't need.
    return content.partition(b"\n")[0]


class Troubled(Protocol):
    """What may have something wrong to say."""

    @property
    def refused(self) -> str | None:
        """What the database refused for what is in it, or else is wrong with it."""


class Part(Troubled, Protocol):
    """What is reported and heard over one connection."""

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell the database what it lacks: each time the versions that it has by now. Raises `psycopg.Error`."""

    def look(self, connection: Connection) -> bool:
        """Put into the inbox what changed; returns whether there may be more. Raises `psycopg.Error` and `OSError`."""


class Reports:
    """One connection at a time, over which everything that is owed goes, the longest owed first."""

    def __init__(self, state: Path, settings: Settings, fleet: FleetSettings, epoch: int) -> None:
        self._state = state
        self._settings = settings
        self._fleet = fleet
        self._epoch = epoch
        self._pause = FIRST_PAUSE_S
        self._number = 0
        """Of this connection, as the database counts them."""
        self._reached = 0
        """The last version of the outbox that this connection dealt with. Further ones are higher."""
        self._most = MOST_AT_ONCE
        self._refused: str | None = None
        """What the database refused for what is in it, over this connection."""

    def run(self) -> None:
        """For ever."""
        while True:
            try:
                connection = as_host(self._fleet)
                try:
                    self._serve(connection)
                finally:
                    connection.close()
            except (DatabaseUnreachable, DatabaseRefuses, reading.StoreUnreadable) as error:
                why = str(error)
            except psycopg.Error as error:
                why = in_one_line(error)
            except OSError as error:
                why = f"{error.filename} can't be written: {error.strerror}"
            _say({"trouble": f"{why[:_MOST_TROUBLE]}; {self._in_words()}"})
            time.sleep(self._pause)
            self._pause = min(LONGEST_PAUSE_S, 2 * self._pause)

    def _in_words(self) -> str:
        """How much is owed."""
        try:
            with reading.reading(str(self._state)) as store:
                count = how_many_owed(store)
        except reading.StoreUnreadable as error:
            return str(error)
        return f"{count} {'report is' if count == 1 else 'reports are'} owed to the fleet"

    def _serve(self, connection: Connection) -> None:
        """Report over this connection until it fails."""
        with in_time(connection):
            row = connection.execute("select runward.greet(%s, %s)", (self._epoch, __version__)).fetchone()
        assert row is not None, "a function returns a row"
        self._number, self._reached, self._refused = int(row[0]), 0, None
        orders = Orders(self._state, self._fleet, self._number)
        events = Events(
            self._state, self._settings, self._fleet, self._number, lambda heard: _say({"heard": [*heard]})
        )
        parts: list[Part] = [
            orders,
            Offers(self._state, self._settings, self._fleet, self._number, orders.offers_changed),
            Chains(self._state, self._fleet, self._number),
            OutcomesAndApprovals(self._state, self._settings, self._fleet, self._epoch, self._number),
            events,
        ]
        orders.listen(connection)
        record = Record(self._state, self._fleet, self._number)
        while True:
            record.look(connection)
            if record.since is not None:
                _say({"owe_again": record.since})
            while self._deliver(connection):
                pass
            if record.since is None:
                for part in parts:
                    for versions in part.say(connection):
                        if versions:
                            _say({"delivered": [*versions]})
                            point("fleet.orders.told")
                for part in parts:
                    while part.look(connection):
                        pass
            _say({"trouble": self._trouble([record, *parts])})
            self._most, self._pause = MOST_AT_ONCE, FIRST_PAUSE_S
            _wait(connection, orders, PERIOD_S if events.due_s is None else events.due_s)

    def _trouble(self, parts: Sequence[Troubled]) -> str | None:
        """What the database refused for what is in it, over this connection."""
        refused = [self._refused, *(part.refused for part in parts)]
        return "; ".join(each for each in refused if each is not None) or None

    def _deliver(self, connection: Connection) -> bool:
        """Deliver the next rows, with a sign of life; returns whether there were any."""
        with reading.reading(str(self._state)) as store:
            rows = owed(store, SESSION, self._reached, self._most)
            left = how_many_owed(store, self._reached) - len(rows)
            # In the same snapshot: each body is that of its version.
            reports = self._reports(store, rows)
        point("fleet.read")
        heard = ("select runward.heard(%s, %s, %s)", (self._number, left, self._problems()))
        try:
            with in_time(connection):
                if not rows:
                    connection.execute(*heard)
                    return False
                with connection.pipeline(), connection.transaction():
                    connection.execute(*heard)
                    connection.execute("select runward.report_sessions(%s)", (Jsonb(reports),))
                    point("fleet.sent")
        except REFUSED as error:
            # For what is in a row. The others must not wait for it, so each goes by itself from here on.
            if len(rows) == 1:
                why = in_one_line(error)[:_MOST_TROUBLE]
                self._refused = f"the database refuses {rows[0].subject}, which stays owed: {why}"
                self._reached = rows[0].version
            self._most = 1
            return True
        point("fleet.committed")
        self._reached = rows[-1].version
        _say({"delivered": [each.version for each in rows]})
        point("fleet.told")
        return True

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

    def _problems(self) -> list[str]:
        """What keeps the daemon from its work, as it says itself."""
        from runward.handlers.secrets import json_without_secrets

        degraded = report_of(str(self._state), holder(self._state)).get("degraded")
        said = json_without_secrets(degraded, self._settings.bundle.rules.redact)
        if not isinstance(said, list):
            return []
        return [str(each)[:_MOST_PROBLEM].replace("\0", "\ufffd") for each in said[:_MOST_PROBLEMS]]


def _wait(connection: Connection, orders: Orders, longest: float) -> None:
    """For a hint, an order that has changed, or the next sign of life. Raises `psycopg.Error`."""
    # What arrived with the last answers is read by now, so `select` would not report it.
    if orders.is_told(connection):
        return
    ready, _, _ = select.select([0, connection.fileno()], [], [], longest)
    if 0 in ready:
        os.read(0, 1 << 16)
    if connection.fileno() in ready:
        # If the connection has ended, this says so.
        orders.is_told(connection)


def _say(said: JsonValue) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
