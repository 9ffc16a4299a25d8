"""Outcomes of this host's sessions, and approvals that wait for a person, as the program reports them for lists."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from psycopg.types.json import Jsonb

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings
from runward.daemon.fleet.bodies import MOST_BODY, VERSION_BITS
from runward.daemon.fleet.connecting import Connection, in_time
from runward.daemon.fleet.delivery import Delivery
from runward.daemon.store.tables.approvals import open_approvals_of_ids
from runward.daemon.store.tables.artifacts import artifacts_of_ids
from runward.daemon.store.tables.fleet_outbox import APPROVAL, OUTCOME, Owed
from runward.daemon.views.outcomes import outcomes_as_json
from runward.handlers.model.fleet import size_in_database, storable
from runward.handlers.secrets import without_secrets_in


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
    return cleaned if size_in_database(cleaned) <= MOST_BODY else {**cleaned, long: None}


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

    def __init__(
        self, state: Path, settings: Settings, fleet: FleetSettings, epoch: int, number: int
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._epoch = epoch
        self._number = number
        self._deliveries = [
            Delivery(state, kind, partial(self._reports, way), partial(self._tell, way.call))
            for kind, way in _KINDS.items()
        ]

    @property
    def refused(self) -> str | None:
        """What the database refused for what is in it."""
        refused = (each.refused for each in self._deliveries)
        return next((each for each in refused if each is not None), None)

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell the database what it lacks: each time the versions that it has by now. Raises `psycopg.Error`."""
        for each in self._deliveries:
            yield from each.say(connection)

    def _reports(self, way: _Kind, store: sqlite3.Connection, rows: list[Owed]) -> list[JsonValue]:
        made = way.made(store, self._settings, self._fleet.titles, [row.subject for row in rows])
        return [self._report(row, made.get(row.subject)) for row in rows]

    def _report(self, row: Owed, made: Row | None) -> JsonValue:
        return {
            "id": row.subject,
            "version": (self._epoch << VERSION_BITS) + row.version,
            "at": None if made is None else made.at,
            "chain_run": None if made is None else made.chain_run,
            "body": None if made is None else made.body,
        }

    def _tell(self, call: str, connection: Connection, reports: list[JsonValue]) -> None:
        with in_time(connection):
            connection.execute(call, (self._number, Jsonb(reports)))
