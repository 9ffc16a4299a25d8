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
from typing import Final, NamedTuple, Protocol

import psycopg

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings, settings_from_json
from runward.daemon import __version__
from runward.daemon.faults import from_environment
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
from runward.daemon.fleet.orders import Orders
from runward.daemon.fleet.outcomes_and_approvals import OutcomesAndApprovals
from runward.daemon.fleet.record import Record
from runward.daemon.fleet.session_reports import SessionReports
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

OF_FLEET: Final = "fleet: "
"""How the daemon begins what this program told it."""

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


class Part(Troubled, Protocol):
    """What of this host the fleet shares, over one connection.

    `looks_for` is the word by which `pulse` says that there is something to look for; without one, the part knows when to look.
    """

    @property
    def looks_for(self) -> str | None: ...

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Deliver what is owed: each time the versions that the database has by now. Raises `psycopg.Error`."""

    def look(self, connection: Connection) -> bool:
        """Put into the inbox what the database has for this host; returns whether there may be more.

        Raises `psycopg.Error` and `OSError`.
        """


class Pulse(NamedTuple):
    """Where there is something to look for; how many changes of orders there were; whether hosts still say again what they know."""

    words: list[str]
    changes: int
    is_older: bool


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
        orders = Orders(self._state, self._fleet, self._number)
        record = Record(self._state, self._fleet, self._number)
        events = Events(
            self._state, self._settings, self._fleet, self._number, lambda heard: _say({"heard": [*heard]})
        )
        sessions = SessionReports(self._state, self._settings, self._fleet, self._epoch, self._number)
        parts: Sequence[Part] = (
            orders,  # before the sessions: somebody waits for a step
            sessions,
            Offers(self._state, self._settings, self._fleet, self._number, orders.offers_changed),
            Chains(self._state, self._fleet, self._number),
            OutcomesAndApprovals(self._state, self._settings, self._fleet, self._epoch, self._number),
            events,
        )
        troubled = (record, *parts)
        orders.listen(connection)
        compared: Pulse | None = None
        while True:
            if record.since is not None or compared is None:
                record.look(connection)
            if record.since is not None:
                _say({"owe_again": record.since})
            # In an older database, all is said again before anything goes on.
            for part in parts if record.since is None else (sessions,):
                self._deliver(connection, part, troubled)
            pulse, is_asked = self._pulse(connection, troubled), record.since is None
            # What it has seen of the fleet is remembered, so that it knows an older database by it.
            if pulse.is_older or compared is None or pulse.changes != compared.changes:
                record.look(connection)
            compared = pulse
            if is_asked and record.since is not None:
                continue
            for part in parts if record.since is None else ():
                while (part.looks_for is None or part.looks_for in pulse.words) and part.look(connection):
                    pass
            _say({"trouble": _refused(troubled)})
            self._pause = FIRST_PAUSE_S
            _wait(connection, orders, PERIOD_S if events.due_s is None else events.due_s)

    def _deliver(self, connection: Connection, part: Part, troubled: Sequence[Troubled]) -> None:
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
        given = (self._number, left, self._problems(troubled))
        with in_time(connection):
            row = connection.execute(
                "select words, changes, is_older from runward.pulse(%s, %s, %s)", given
            ).fetchone()
        assert row is not None, "a function returns a row"
        self._pulsed_at = time.monotonic()
        return Pulse(*row)

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
