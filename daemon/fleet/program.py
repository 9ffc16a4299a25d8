"""The program that reports to the fleet, which the daemon starts: `program STATE`.

Its first line on stdin has the settings and the daemon's epoch, and each further one is a hint that there may be more to
report. On stdout it says, as lines of JSON, which versions of the outbox the database has, and what is wrong. It ends with the
daemon. It writes nothing but the database, and requests into the inbox: killed at any point, it loses nothing.
"""

import json
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import psycopg

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings, settings_from_json
from runward.daemon import __version__
from runward.daemon.faults import from_environment
from runward.daemon.fleet.connecting import (
    Connection,
    DatabaseRefuses,
    DatabaseUnreachable,
    as_host,
    in_one_line,
    in_time,
)
from runward.daemon.fleet.events import Events
from runward.daemon.fleet.notices import Notices
from runward.daemon.fleet.offers import Offers
from runward.daemon.fleet.orders import Orders
from runward.daemon.fleet.outcomes_and_approvals import OutcomesAndApprovals
from runward.daemon.fleet.problems import OF_FLEET
from runward.daemon.fleet.pulse import Pulse, give_pulse
from runward.daemon.fleet.receipts import Receipts
from runward.daemon.fleet.record import Record
from runward.daemon.fleet.session_reports import SessionReports
from runward.daemon.fleet.telling_orders import OrdersTold
from runward.daemon.processes.client_gone import end_with_client
from runward.daemon.processes.giving_way import give_way
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables.fleet_outbox import how_many_owed, still_there
from runward.daemon.views.daemon_report import report_of

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
    Program(state, settings, settings.fleet, int(told["epoch"])).run()


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


class Says(Troubled, Protocol):
    """What this host tells the fleet, over one connection."""

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Deliver what is owed: each time the versions that the database has by now. Raises `psycopg.Error`."""


class Looks(Troubled, Protocol):
    """What this host is told by the fleet, over one connection.

    `looks_for` is the word by which `pulse` says that there is something to look for; without one, the part knows when to look.
    """

    @property
    def looks_for(self) -> str | None: ...

    def look(self, connection: Connection) -> bool:
        """Put into the inbox what the database has for this host; returns whether there may be more.

        Raises `psycopg.Error` and `OSError`.
        """


class Program:
    """One connection at a time, over which everything goes."""

    def __init__(self, state: Path, settings: Settings, fleet: FleetSettings, epoch: int) -> None:
        self._state = state
        self._settings = settings
        self._fleet = fleet
        self._epoch = epoch
        self._pause = FIRST_PAUSE_S
        self._number = 0
        """Of this connection, as the database counts them."""
        self._delivered: set[int] = set()
        """The versions that the database has, and that the daemon may not have marked yet."""
        self._pulsed_at = 0.0
        """When this connection last gave a sign of life (monotonic time)."""

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
        self._number = int(row[0])
        notices = Notices(self._fleet.host)
        record = Record(self._state, self._fleet, self._number)
        told = OrdersTold(self._state, self._fleet, self._number)
        orders = Orders(self._state, self._fleet, self._number)
        sessions = SessionReports(self._state, self._settings, self._fleet, self._epoch, self._number)
        offers = Offers(self._state, self._settings, self._fleet, self._number, notices.offers_changed)
        receipts = Receipts(self._state, self._fleet, self._number)
        lists = OutcomesAndApprovals(self._state, self._settings, self._fleet, self._epoch, self._number)
        events = Events(
            self._state, self._settings, self._fleet, self._number, lambda heard: _say({"heard": [*heard]})
        )
        # Orders before sessions: somebody waits for a step.
        says: Sequence[Says] = (told, sessions, offers, receipts, lists, events)
        looks: Sequence[Looks] = (orders, offers, events)
        troubled: Sequence[Troubled] = (record, told, orders, sessions, offers, receipts, lists, events)
        notices.listen(connection)
        record.look(connection)
        while True:
            since = record.since
            if since is not None:
                _say({"owe_again": since})
            # In an older database, all is said again before anything goes on.
            for part in says if since is None else (sessions,):
                self._deliver(connection, part, troubled)
            pulse = self._pulse(connection, troubled)
            record.heed(connection, pulse)
            if record.since != since:
                continue
            for look in looks if since is None else ():
                while (look.looks_for is None or look.looks_for in pulse.words) and look.look(connection):
                    pass
            _say({"trouble": _refused(troubled)})
            self._pause = FIRST_PAUSE_S
            _wait(connection, notices, PERIOD_S if events.due_s is None else events.due_s)

    def _deliver(self, connection: Connection, part: Says, troubled: Sequence[Troubled]) -> None:
        for versions in part.say(connection):
            if versions:
                self._delivered.update(versions)
                _say({"delivered": [*versions]})
            if time.monotonic() - self._pulsed_at > PERIOD_S:
                self._pulse(connection, troubled)

    def _pulse(self, connection: Connection, troubled: Sequence[Troubled]) -> Pulse:
        """Give a sign of life; returns what there is to look for."""
        with reading.reading(str(self._state)) as store:
            self._delivered = still_there(store, self._delivered)
            left = how_many_owed(store) - len(self._delivered)
        pulse = give_pulse(connection, self._number, left, self._problems(troubled))
        self._pulsed_at = time.monotonic()
        return pulse

    def _problems(self, troubled: Sequence[Troubled]) -> list[str]:
        """What keeps the daemon from its work, as it says itself. Of the fleet, only what is so now."""
        from runward.handlers.secrets import json_without_secrets

        degraded = report_of(str(self._state), holder(self._state)).get("degraded")
        said = json_without_secrets(degraded, self._settings.bundle.rules.redact)
        theirs = [str(each) for each in said] if isinstance(said, list) else []
        refused = _refused(troubled)
        own = [] if refused is None else [f"{OF_FLEET}{refused}"]
        problems = own + [each for each in theirs if not each.startswith(OF_FLEET)]
        return [each[:_MOST_PROBLEM].replace("\0", "\ufffd") for each in problems[:_MOST_PROBLEMS]]


def _refused(troubled: Sequence[Troubled]) -> str | None:
    """What the database refused for what is in it, over this connection."""
    refused = [each.refused for each in troubled if each.refused is not None]
    return "; ".join(refused)[:_MOST_TROUBLE] or None


def _wait(connection: Connection, notices: Notices, longest: float) -> None:
    """For a hint, a notice, or the next sign of life. Raises `psycopg.Error`."""
    # What arrived with the last answers is read by now, so `select` would not report it.
    if notices.are_there(connection):
        return
    ready, _, _ = select.select([0, connection.fileno()], [], [], longest)
    if 0 in ready:
        os.read(0, 1 << 16)
    if connection.fileno() in ready:
        # If the connection has ended, this says so.
        notices.are_there(connection)


def _say(said: JsonValue) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
