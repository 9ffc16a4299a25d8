"""Events between hosts: those that others accept from this one go to the database, and those that this one accepts into its inbox.

The name of a request follows from its event, so an event that is read twice is the same one.
"""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from psycopg.types.json import Jsonb

from runward.config.json_value import JsonValue
from runward.config.own_events import OWN_EVENTS
from runward.config.settings import FleetSettings, Settings
from runward.daemon.faults import point
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.delivery import Delivery
from runward.daemon.fleet.orders import foreign
from runward.daemon.inbox.spool import RequestTooLong, leave_request
from runward.daemon.store.tables.between_hosts import ToldEvent, told_events
from runward.daemon.store.tables.fleet_outbox import EVENT, Owed
from runward.handlers.model.chains import EventOccurred
from runward.handlers.model.fleet import size_in_database, storable
from runward.handlers.secrets import json_without_secrets

_MOST_READ: Final = 10
"""Events that are read at once: each may have 1 MiB."""

MOST_FIELDS: Final = 256 << 10
"""Bytes of an event's fields, as the database writes them. It takes more, and so does an inbox."""

_MOST_ID: Final = 1000
_MOST_DEEP: Final = 1000
_MOST_HEARD: Final = 500
"""Names of events that others may accept from this host. A compromised one could name any number."""

_PERIOD_S: Final = 1.0
"""Seconds between two questions to the database, at least: a busy daemon hints many times a second."""

_PATIENCE_S: Final = 0.05
_MOST_PATIENCE: Final = 40
"""What is committed can be read once every transaction that began before is over. So often, this is waited for."""

_HIDDEN: Final = ("cwd", "path")
"""Fields of Runward's own events that are told only if the settings say so."""


class _Read(NamedTuple):
    """An event as the database has it; without a host, the place where to go on."""

    xid: str
    place: int
    host: str | None
    key: str
    name: str
    id: str
    age_s: float
    depth: int
    fields: str
    is_more: bool
    heard: list[str] | None


_BEGIN: Final = "select runward.begin_reading_events(%s)"
_HEAR: Final = "select runward.hear_events(%s, %s, %s)"
_TELL: Final = "select runward.tell_events(%s, %s)"
_READ: Final = (
    "select xid::text, place, host, key, name, id, age_s, depth, fields, is_more, heard"
    " from runward.read_events(%s, %s::xid8, %s, %s)"
)


class Events:
    """The events of this host and of others, over one connection."""

    def __init__(
        self,
        state: Path,
        settings: Settings,
        fleet: FleetSettings,
        number: int,
        tell_heard: Callable[[list[str]], None],
    ) -> None:
        self._state = state
        self._settings = settings
        self._fleet = fleet
        self._number = number
        self._tell_heard = tell_heard
        self._delivery = Delivery(state, EVENT, self._read, self._tell)
        self._place: tuple[str, int] | None = None
        """Up to where all is in the inbox: a transaction and a number. None: where the database knows it from."""
        self._has_begun = False
        self._asked_at = -_PERIOD_S
        self._patience = _MOST_PATIENCE
        self.due_s: float | None = None
        """Seconds after which a look is due that was left out."""
        self._heard: list[str] | None = None
        self._missed: str | None = None
        """What was not told or read for what is in it, or because this host was away for too long."""

    @property
    def refused(self) -> str | None:
        """What the database refused for what is in it, or what fires nothing."""
        return self._delivery.refused or self._missed

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell the database what others accept: each time the versions that it has by now. Raises `psycopg.Error`."""
        yield from self._delivery.say(connection)

    def _read(self, store: sqlite3.Connection, rows: list[Owed]) -> list[JsonValue]:
        events = told_events(store, [row.subject for row in rows])
        return [told for told in map(self._told, events) if told is not None]

    def _tell(self, connection: Connection, told: list[JsonValue]) -> None:
        point("fleet.events.read")
        with in_time(connection), connection.transaction():
            if told:
                connection.execute(_TELL, (self._number, Jsonb(told)))
            point("fleet.events.sent")
        point("fleet.events.committed")

    def _told(self, event: ToldEvent) -> JsonValue:
        """The event as others read it; None if it is too long for that."""
        fields: JsonValue = json.loads(event.fields)
        if not self._fleet.titles and event.name in OWN_EVENTS and isinstance(fields, dict):
            fields = {name: None if name in _HIDDEN else value for name, value in fields.items()}
        cleaned = storable(json_without_secrets(fields, self._settings.bundle.rules.redact))
        if size_in_database(cleaned) > MOST_FIELDS:
            self._missed = (
                f"{event.name} {event.id[:_MOST_ID]} is too long for other hosts: it fires nothing there"
            )
            return None
        return {
            "key": hashlib.sha256(event.key.encode()).hexdigest()[:32],
            "name": event.name,
            "id": storable(event.id[:_MOST_ID]),
            "depth": min(event.depth, _MOST_DEEP),
            "fields": cleaned,
        }

    def look(self, connection: Connection) -> bool:
        """Put what this host accepts into the inbox; returns whether there may be more. Raises `psycopg.Error` and `OSError`."""
        if not self._has_begun:
            self._begin(connection)
        pause = _PERIOD_S if self._patience == _MOST_PATIENCE else _PATIENCE_S
        self.due_s = self._asked_at + pause - time.monotonic()
        if self.due_s > 0:
            return False
        self.due_s = None
        self._asked_at = time.monotonic()
        with in_time(connection):
            given = (self._number, *(self._place or (None, None)), _MOST_READ)
            rows = [_Read(*row) for row in connection.execute(_READ, given).fetchall()]
        point("fleet.events.looked")
        *events, end = rows
        for each in events:
            self._leave(each)
        self._say_heard(end.heard or [])
        if len(events) == _MOST_READ:
            self._place = events[-1].xid, events[-1].place
            self._asked_at = -_PERIOD_S
            return True
        self._place = end.xid, end.place
        if not end.is_more or self._patience == 0:
            self._patience = _MOST_PATIENCE
            return False
        self._patience -= 1
        self.due_s = _PATIENCE_S
        return False

    def _begin(self, connection: Connection) -> None:
        """Say what this host accepts, and read on from where it was."""
        pairs = sorted(
            {(origin, event) for each in self._fleet.accept for origin in each.from_ for event in each.events}
        )
        with in_time(connection):
            connection.execute(_HEAR, (self._number, [one for one, _ in pairs], [one for _, one in pairs]))
            row = connection.execute(_BEGIN, (self._number,)).fetchone()
        self._has_begun = True
        if row is not None and row[0] and pairs:
            self._missed = "events of other hosts are kept for 7 days, and this host was away for longer: earlier ones fired nothing"

    def _say_heard(self, heard: Sequence[str]) -> None:
        names = sorted(set(heard))[:_MOST_HEARD]
        if names != self._heard:
            self._tell_heard(names)
            self._heard = names

    def _leave(self, event: _Read) -> None:
        """Put an event into the inbox, durably. Raises `OSError`."""
        fields = foreign(event.fields)
        whole = f"{event.host}/{event.id}"
        if not isinstance(fields, dict):
            self._missed = f"{event.name} {whole} can't be read: it fires nothing here"
            return
        known = hashlib.sha256(f"{event.host}/{event.key}".encode()).hexdigest()[:24]
        # By the database's clock: that of another host may be wrong by days.
        at = time.time() - max(0.0, event.age_s)
        request = EventOccurred(
            f"fleet-event-{known}", at, event.name, whole, fields, host=event.host, depth=event.depth
        )
        try:
            leave_request(self._state, request)
        except RequestTooLong:
            self._missed = f"{event.name} {whole} is too long: it fires nothing here"
        point("fleet.events.put")
