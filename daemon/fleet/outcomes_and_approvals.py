"""Outcomes of this host's sessions, and approvals that wait for a person, as the program reports them for lists."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from psycopg.types.json import Jsonb

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings
from runward.daemon.fleet.bodies import MOST_BODY, VERSION_BITS, storable
from runward.daemon.fleet.connecting import REFUSED, Connection, in_one_line, in_time
from runward.daemon.store import reading
from runward.daemon.store.tables.approvals import open_approvals_of_ids
from runward.daemon.store.tables.artifacts import artifacts_of_ids
from runward.daemon.store.tables.fleet_outbox import APPROVAL, OUTCOME, Owed, owed
from runward.daemon.views.outcomes import outcomes_as_json
from runward.handlers.secrets import without_secrets_in

MOST_AT_ONCE: Final = 100
"""Rows that are delivered in one transaction."""


class Row(NamedTuple):
    """What is told of an outcome or an approval, and its time (Unix seconds)."""

    at: float
    body: dict[str, JsonValue]
    chain_run: str | None = None


def outcomes(
    store: sqlite3.Connection, settings: Settings, titles: bool, ids: Sequence[str]
) -> dict[str, Row]:
    """By id. One that is no longer recorded has none."""
    made: dict[str, Row] = {}
    for row, run in artifacts_of_ids(store, ids):
        (body,) = outcomes_as_json(settings, [row])
        assert isinstance(body, dict)
        told = {**body, **({} if titles else {"file_path": None})}
        made[row.id] = Row(row.updated_at, _within(told, "content"), run)
    return made


def approvals(
    store: sqlite3.Connection, settings: Settings, titles: bool, ids: Sequence[str]
) -> dict[str, Row]:
    """By id. One that waits for nobody has none. What was shown has commands and files: it is told only with `titles`."""
    made: dict[str, Row] = {}
    for row in open_approvals_of_ids(store, ids):
        body = without_secrets_in(row.as_json(), settings.bundle.rules.redact)
        told = {**body, **({} if titles else {"shown": None, "not_covered": []})}
        made[row.id] = Row(row.asked_at, _within(told, "shown"))
    return made


def _within(body: dict[str, JsonValue], long: str) -> dict[str, JsonValue]:
    """The body as the database takes it, without the field that makes it too long."""
    cleaned = storable(body)
    assert isinstance(cleaned, dict)
    return cleaned if len(json.dumps(cleaned)) <= MOST_BODY else {**cleaned, long: None}


class _Kind(NamedTuple):
    """How rows of a kind are made and told."""

    made: Callable[[sqlite3.Connection, Settings, bool, Sequence[str]], dict[str, Row]]
    call: str


_KINDS: Final = {
    OUTCOME: _Kind(outcomes, "select runward.report_outcomes(%s, %s)"),
    APPROVAL: _Kind(approvals, "select runward.report_approvals(%s, %s)"),
}


class OutcomesAndApprovals:
    """Those of this host, over one connection."""

    looks_for: str | None = None

    def __init__(
        self, state: Path, settings: Settings, fleet: FleetSettings, epoch: int, number: int
    ) -> None:
        self._state = state
        self._settings = settings
        self._fleet = fleet
        self._epoch = epoch
        self._number = number
        self._reached = dict.fromkeys(_KINDS, 0)
        """By kind, the last version of the outbox that was dealt with."""
        self.refused: str | None = None
        """What the database refused for what is in it."""

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell the database what it lacks: each time the versions that it has by now. Raises `psycopg.Error`."""
        for kind, way in _KINDS.items():
            most = MOST_AT_ONCE
            while True:
                with reading.reading(str(self._state)) as store:
                    rows = owed(store, kind, self._reached[kind], most)
                    # In the same snapshot: each body is that of its version.
                    made = way.made(store, self._settings, self._fleet.titles, [row.subject for row in rows])
                if not rows:
                    break
                why = self._told(
                    connection, way.call, [self._report(row, made.get(row.subject)) for row in rows]
                )
                if why is None:
                    self._reached[kind] = rows[-1].version
                    yield [row.version for row in rows]
                    continue
                # For what is in a row. The others must not wait for it, so each goes by itself from here on.
                if len(rows) == 1:
                    self.refused = f"the database refuses {kind} {rows[0].subject}, which stays owed: {why}"
                    self._reached[kind] = rows[0].version
                most = 1

    def look(self, connection: Connection) -> bool:
        """Nothing that other hosts report concerns the daemon."""
        return False

    def _report(self, row: Owed, made: Row | None) -> JsonValue:
        return {
            "id": row.subject,
            "version": (self._epoch << VERSION_BITS) + row.version,
            "at": None if made is None else made.at,
            "chain_run": None if made is None else made.chain_run,
            "body": None if made is None else made.body,
        }

    def _told(self, connection: Connection, call: str, reports: list[JsonValue]) -> str | None:
        """Why the database refuses them; None if it has them."""
        try:
            with in_time(connection):
                connection.execute(call, (self._number, Jsonb(reports)))
        except REFUSED as error:
            return in_one_line(error)
        return None
