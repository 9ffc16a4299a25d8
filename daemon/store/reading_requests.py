"""What was decided about requests that people made lately."""

import sqlite3
from typing import Final, NamedTuple

from runward.daemon.store.reading_causes import event_recorded

LATELY: Final = 20_000
"""Decisions that are looked through, the newest ones, because people look at the result of a request soon."""


class Decided(NamedTuple):
    """A decision about a request, or about what it led to."""

    verdict: str
    summary: str


def event_of(connection: sqlite3.Connection, request: str) -> int | None:
    """The number of a request's event. Its key is the request's name, except for those that say what a person has seen."""
    found = event_recorded(connection, request)
    if found is not None:
        return found
    row = connection.execute(
        "select seq from events where type = 'SessionSeenRequested' and payload ->> 'request' = ?", (request,)
    ).fetchone()
    return None if row is None else int(row[0])


def decisions_on(connection: sqlite3.Connection, request: str) -> list[Decided]:
    """What was decided about a request and about what it led to, in order; only among the newest `LATELY` decisions."""
    # Only what was recorded after the request can follow from it: of the other decisions, no event is looked up.
    rows = connection.execute(
        "select d.verdict, d.summary from decisions d cross join events e on e.seq = d.event"
        " where d.id > (select max(id) from decisions) - ?2"
        " and d.event >= coalesce((select seq from events where key = ?1), 0)"
        " and (e.key = ?1 or e.cause = ?1) order by d.id",
        (request, LATELY),
    )
    return [Decided(*row) for row in rows]


def why_refused(connection: sqlite3.Connection, request: str) -> str | None:
    """Why a request, or what it led to, was refused, once that is decided."""
    found = decisions_on(connection, request)
    return next((each.summary for each in found if each.verdict == "refused"), None)
