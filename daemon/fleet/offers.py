"""What this host accepts from others goes to the database, and what others accept from this one into a file of its state.

Both are only shown, and asked for before a step is ordered: the settings of the taker decide.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

from psycopg.types.json import Jsonb

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings
from runward.daemon.configuration.declarations import Declarer
from runward.daemon.configuration.declared_files import playbook_names
from runward.daemon.configuration.offers import HostKnown, write_offers
from runward.daemon.fleet.connecting import REFUSED, Connection, in_one_line, in_time
from runward.daemon.store import reading
from runward.daemon.store.tables.between_hosts import is_anything_ordered
from runward.handlers.fleet.offering import accepted_from, hash_of
from runward.handlers.model.invocations import Play

_MOST_OFFERED: Final = 2000
_MOST_NAME: Final = 200

_OWN_PERIOD_S: Final = 10.0
"""Seconds between two looks at the own playbooks, at least."""

_PERIOD_S: Final = 20.0
_LONG_PERIOD_S: Final = 600.0
"""Seconds between two looks at the others without a notice, at least: while a step of this host waits or runs elsewhere, and otherwise."""

_REPORT: Final = "select runward.report_offers(%s, %s, %s)"
_OTHERS: Final = (
    "with me as materialized (select runward.own_name(%s) as name)"
    " select h.name, h.labels, extract(epoch from h.last_seen)::float8, h.slots,"
    " coalesce((select jsonb_agg(jsonb_build_array(s.kind, s.name, s.hash)) from ("
    "  select s.kind, s.name, s.hash from runward.skills s"
    "  where s.host = h.name and s.accepted_from && array[me.name, '*'] order by s.kind, s.name limit 2000) s), '[]')"
    " from me join runward.hosts h on h.name <> me.name and h.joined_at is not null and h.removed_at is null"
    " order by h.last_seen desc nulls last, h.name limit 1000"
)


class Offers:
    """What hosts accept from each other, over one connection."""

    def __init__(
        self,
        state: Path,
        settings: Settings,
        fleet: FleetSettings,
        number: int,
        is_told: Callable[[], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._settings = settings
        self._fleet = fleet
        self._number = number
        self._is_told = is_told
        self._now = now
        self._declarer = Declarer(settings)
        self._reported: list[JsonValue] | None = None
        """What the database has of this host; None if that is not known over this connection."""
        self._own_at: float | None = None
        self._others_at: float | None = None
        self.refused: str | None = None
        """What could not be reported for what is in it."""

    def say(self, connection: Connection) -> Iterator[list[int]]:
        """Tell the database what this host accepts, if that is something else now. Nothing of it is in the outbox.

        Raises `psycopg.Error`.
        """
        yield from ()
        if self._own_at is not None and self._now() - self._own_at < _OWN_PERIOD_S:
            return
        self._own_at = self._now()
        offered = self._offered()
        if offered == self._reported:
            return
        self.refused = None
        most = offered[:_MOST_OFFERED]
        if len(offered) > len(most):
            self.refused = f"[[fleet.accept]] accepts {len(offered)} playbooks and actions: the fleet is told of {len(most)}"
        try:
            with in_time(connection):
                connection.execute(_REPORT, (self._number, self._fleet.slots, Jsonb(most)))
        except REFUSED as error:
            self.refused = f"the database refuses what this host accepts: {in_one_line(error)}"
        self._reported = offered

    def _offered(self) -> list[JsonValue]:
        accept = self._fleet.accept
        if not accept:
            return []
        names = [("skill", name, self._declarer.play) for name in playbook_names(self._settings)]
        names += [("action", each.name, self._declarer.action) for each in self._settings.actions]
        offered: list[JsonValue] = []
        for kind, name, play in names:
            offered += self._offer(kind, name, play)  # type: ignore[arg-type] # of the two kinds
        return offered

    def _offer(
        self, kind: Literal["skill", "action"], name: str, play: Callable[[str], Play]
    ) -> list[JsonValue]:
        origins = accepted_from(self._fleet.accept, kind, name)
        if not origins or len(name) > _MOST_NAME:
            return []
        known = hash_of(play(name))
        if known is None:
            return []  # it starts nothing here, as `status` says
        return [{"kind": kind, "name": name, "hash": known, "accepted_from": [*origins]}]

    def look(self, connection: Connection) -> bool:
        """Write down what others accept from this host, if that may have changed. Raises `psycopg.Error` and `OSError`."""
        if self._is_told() or self._others_at is None:
            is_due = True
        else:
            waited = self._now() - self._others_at
            is_due = waited >= _LONG_PERIOD_S or (waited >= _PERIOD_S and self._is_waiting())
        if is_due:
            self._others_at = self._now()
            with in_time(connection):
                rows = connection.execute(_OTHERS, (self._number,)).fetchall()
            write_offers(self._state, {name: _known(*facts) for name, *facts in rows})
        return False

    def _is_waiting(self) -> bool:
        with reading.reading(str(self._state)) as store:
            return is_anything_ordered(store)


def _known(
    labels: list[str], last_seen: float | None, slots: int | None, offered: list[tuple[str, str, str]]
) -> HostKnown:
    return HostKnown(
        tuple(labels),
        last_seen,
        slots,
        {name: each for kind, name, each in offered if kind == "skill"},
        {name: each for kind, name, each in offered if kind == "action"},
    )
