"""One connection of the program to the fleet's database: what goes over it, and in which order.

Somebody waits for a step on another host, so what concerns orders goes at once, also between two batches of reports. These are
told once a second: a busy daemon changes most sessions several times in a second.
"""

import math
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from psycopg import sql

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings
from runward.daemon import __version__
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.events import Events
from runward.daemon.fleet.offers import Offers
from runward.daemon.fleet.orders import Orders
from runward.daemon.fleet.outcomes_and_approvals import OutcomesAndApprovals
from runward.daemon.fleet.problems import OF_FLEET
from runward.daemon.fleet.pulse import Pulse, give_pulse
from runward.daemon.fleet.receipts import Receipts
from runward.daemon.fleet.record import Record
from runward.daemon.fleet.session_reports import SessionReports
from runward.daemon.fleet.telling_orders import OrdersTold
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables.fleet_outbox import how_many_owed, still_there
from runward.daemon.views.daemon_report import report_of

PERIOD_S: Final = 30.0
"""Seconds between two signs of life, and two looks without a hint."""

REPORT_PERIOD_S: Final = 1.0
"""Seconds between two rounds of reports, and two signs of life while something happens, at least."""

MOST_TROUBLE: Final = 2000
"""Characters of what is wrong. What a database says may be longer."""

_MOST_PROBLEMS: Final = 20
_MOST_PROBLEM: Final = 1000

_CHANNEL: Final = "runward_orders_"
"""What the channel begins with that tells of a host's orders; its name follows."""

_OFFERS_CHANNEL: Final = "runward_offers"
"""What tells all hosts that one of them accepts something else."""


class Notices:
    """What the database tells over one connection at once: that an order has changed which concerns this host, or what hosts accept.

    It is only a hint.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._is_told = False
        self._offers_changed = False

    def listen(self, connection: Connection) -> None:
        """From now on. Raises `psycopg.Error`."""
        connection.add_notify_handler(lambda notice: self._take(notice.channel))
        with in_time(connection):
            for channel in (_CHANNEL + self._host, _OFFERS_CHANNEL):
                connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def are_there(self, connection: Connection) -> bool:
        """Whether anything was told since the last call, as far as it has arrived. Raises `psycopg.Error`."""
        connection.pgconn.consume_input()
        while (notice := connection.pgconn.notifies()) is not None:
            self._take(notice.relname.decode())
        is_told, self._is_told = self._is_told, False
        return is_told

    def offers_changed(self) -> bool:
        """Whether a host accepts something else since the last call, as far as that has arrived."""
        changed, self._offers_changed = self._offers_changed, False
        return changed

    def _take(self, channel: str) -> None:
        self._is_told = True
        if channel == _OFFERS_CHANNEL:
            self._offers_changed = True


class Troubled(Protocol):
    """What may have something wrong to say."""

    @property
    def refused(self) -> str | None:
        """What the database refused for what is in it, or else is wrong with it."""


class Says(Troubled, Protocol):
    """What this host tells the fleet."""

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Deliver what is owed: each time the versions that the database has by now. Raises `psycopg.Error`."""


class Serving:
    """What goes over a connection. Raises what a failed connection raises wherever it is used."""

    def __init__(
        self,
        state: Path,
        settings: Settings,
        fleet: FleetSettings,
        epoch: int,
        connection: Connection,
        tell_daemon: Callable[[JsonValue], None],
        give_way: Callable[[bool], None],
    ) -> None:
        self._state = state
        self._settings = settings
        self._connection = connection
        self._tell_daemon = tell_daemon
        self._give_way = give_way
        with in_time(connection):
            row = connection.execute("select runward.greet(%s, %s)", (epoch, __version__)).fetchone()
        assert row is not None, "a function returns a row"
        self._number = number = int(row[0])
        """Of this connection, as the database counts them."""
        self._notices = Notices(fleet.host)
        self._record = Record(state, fleet, number)
        self._orders_told = OrdersTold(state, fleet, number)
        self._orders = Orders(state, fleet, number)
        self._events = Events(state, settings, fleet, number, lambda heard: tell_daemon({"heard": [*heard]}))
        self._sessions = SessionReports(state, settings, fleet, epoch, number)
        self._offers = Offers(state, settings, fleet, number, self._notices.offers_changed)
        receipts = Receipts(state, fleet, number)
        lists = OutcomesAndApprovals(state, settings, fleet, epoch, number)
        self._told_at_once: Sequence[Says] = (self._orders_told, self._events)
        self._reports: Sequence[Says] = (self._sessions, self._offers, receipts, lists)
        self._troubled = (self._record, *self._told_at_once, self._orders, *self._reports)
        self._is_owed = self._is_reporting = True
        self._is_told = False
        """Whether there may be something of orders to tell, or to look at, and whether there may be something to report."""
        self._are_events_left = False
        self._reported_at = -math.inf
        """When the last round of reports ended."""
        self._pulsed_at = self._pulse_due = -math.inf
        """When this connection last gave a sign of life, and when it is to give the next one."""
        self._delivered: set[int] = set()
        """The versions that the database has, and that the daemon may not have marked yet."""
        self._trouble: str | None = ""
        """What the daemon knows of it; at first nothing."""
        self._pulsed_trouble: str | None = None

    def serve(self, went_well: Callable[[], None]) -> None:
        """Until the connection fails. `went_well` is called after each round."""
        self._notices.listen(self._connection)
        self._record.look(self._connection)
        # Only of a program that has given this sign the database expects that it says when a step begins.
        self._give_pulse()
        while True:
            since = self._record.since
            if time.monotonic() - self._pulsed_at >= PERIOD_S:
                self._is_owed = self._is_reporting = True  # a hint may be lost
            if since is None:
                self._bring_orders()
                self._report()
            else:
                self._say_again(since)
            if since is not None or time.monotonic() >= self._pulse_due:
                self._give_pulse()
            if self._record.since != since:
                self._is_owed = self._is_told = self._is_reporting = True
                continue
            self._say_trouble()
            went_well()
            self._wait(self._until_next())

    def _say_again(self, since: str) -> None:
        """In an older database, all is said again before anything goes on."""
        self._is_owed = self._is_told = self._is_reporting = False
        self._tell_daemon({"owe_again": since})
        for _ in self._deliver(self._sessions):
            pass

    def _bring_orders(self) -> None:
        """Tell and look at what somebody waits for."""
        is_told, self._is_told = self._is_told, False
        is_owed, self._is_owed = self._is_owed, False
        if is_owed:
            for part in self._told_at_once:
                for _ in self._deliver(part):
                    # It may be the end of a step, which frees a slot.
                    is_told = is_told or self._orders.is_full
        if is_told:
            self._happened()
            while self._orders.look(self._connection):
                pass
        self._are_events_left = self._events.look(self._connection)

    def _report(self) -> None:
        if not self._is_reporting or time.monotonic() < self._reported_at + REPORT_PERIOD_S:
            return
        self._is_reporting = False
        # Nobody waits for reports: verdicts, and what concerns orders, go first.
        self._give_way(True)
        for part in self._reports:
            for _ in self._deliver(part):
                self._look_up()
            self._look_up()
        self._offers.look(self._connection)
        self._give_way(False)
        self._reported_at = time.monotonic()

    def _look_up(self) -> None:
        """Whether anything of orders came in the meantime: it goes first."""
        self._wait(0.0)
        if self._is_owed or self._is_told:
            self._give_way(False)
            self._bring_orders()
            self._give_way(True)

    def _deliver(self, part: Says) -> Iterator[None]:
        for versions in part.say(self._connection):
            if versions:
                self._delivered.update(versions)
                self._tell_daemon({"delivered": [*versions]})
                self._happened()
            if time.monotonic() - self._pulsed_at >= PERIOD_S:
                self._pulse()
            yield

    def _happened(self) -> None:
        """Something that the next sign of life tells, or remembers."""
        self._pulse_due = min(self._pulse_due, self._pulsed_at + REPORT_PERIOD_S)

    def _give_pulse(self) -> None:
        """Give a sign of life, and do what it is answered with."""
        pulse = self._pulse()
        self._record.heed(self._connection, pulse)
        if self._record.since is None and self._orders.looks_for in pulse.words:
            brought = self._orders.brought
            while self._orders.look(self._connection, is_calm=True):
                pass
            if self._orders.brought > brought:
                self._happened()

    def _pulse(self) -> Pulse:
        with reading.reading(str(self._state)) as store:
            self._delivered = still_there(store, self._delivered)
            left = how_many_owed(store) - len(self._delivered)
        pulse = give_pulse(self._connection, self._number, left, self._problems())
        self._pulsed_at, self._pulsed_trouble = time.monotonic(), self._refused()
        self._pulse_due = self._pulsed_at + PERIOD_S
        return pulse

    def _problems(self) -> list[str]:
        """What keeps the daemon from its work, as it says itself. Of the fleet, only what is so now."""
        from runward.handlers.secrets import json_without_secrets

        degraded = report_of(str(self._state), holder(self._state)).get("degraded")
        said = json_without_secrets(degraded, self._settings.bundle.rules.redact)
        theirs = [str(each) for each in said] if isinstance(said, list) else []
        refused = self._refused()
        own = [] if refused is None else [f"{OF_FLEET}{refused}"]
        problems = own + [each for each in theirs if not each.startswith(OF_FLEET)]
        return [each[:_MOST_PROBLEM].replace("\0", "\ufffd") for each in problems[:_MOST_PROBLEMS]]

    def _refused(self) -> str | None:
        """What the database refused for what is in it, over this connection."""
        refused = [each.refused for each in self._troubled if each.refused is not None]
        return "; ".join(refused)[:MOST_TROUBLE] or None

    def _say_trouble(self) -> None:
        refused = self._refused()
        if refused != self._trouble:
            self._trouble = refused
            self._tell_daemon({"trouble": refused})
        if refused != self._pulsed_trouble:
            self._happened()

    def _until_next(self) -> float:
        """Seconds until something is due without a hint."""
        if self._is_owed or self._is_told or self._are_events_left:
            return 0.0
        due = [self._pulse_due, self._pulsed_at + PERIOD_S]
        if self._is_reporting:
            due.append(self._reported_at + REPORT_PERIOD_S)
        if self._events.due_s is not None:
            due.append(time.monotonic() + self._events.due_s)
        return max(0.0, min(due) - time.monotonic())

    def _wait(self, longest: float) -> None:
        """For a hint, or a notice."""
        # What arrived with the last answers is read by now, so `select` would not report it.
        told = self._notices.are_there(self._connection)
        ready, _, _ = select.select([0, self._connection.fileno()], [], [], 0.0 if told else longest)
        if 0 in ready:
            os.read(0, 1 << 16)
            self._is_owed = True
        if self._connection.fileno() in ready:
            # If the connection has ended, this says so.
            told = self._notices.are_there(self._connection) or told
        self._is_told = self._is_told or told
        self._is_reporting = self._is_reporting or self._is_owed or told
