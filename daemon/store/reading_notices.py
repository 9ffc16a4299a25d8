"""Notices to people outside, as commands read them from the store."""

import sqlite3
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.reading import begins


class NoticeRow(NamedTuple):
    """A notice. Times are Unix seconds."""

    id: str
    kind: str
    subject: str
    recipient: str
    title: str
    text: str
    state: str
    created_at: float
    tries: int
    next_at: float
    error: str | None
    settled_at: float | None


_COLUMNS = ", ".join(NoticeRow._fields)


def notices(
    connection: sqlite3.Connection, state: str | None, limit: int, after: tuple[float, str] | None = None
) -> list[NoticeRow]:
    """The notices in this state, or all, before `after` (a time and an id), newest first; `limit` -1 for all."""
    at, key = after or (None, None)
    # A condition that is not needed is left out: with `or ? is null` SQLite would walk from the newest notice on.
    behind = "" if after is None else " and created_at <= :at and (created_at < :at or id > :key)"
    rows = connection.execute(
        f"select {_COLUMNS} from notices where (:state is null or state = :state){behind}"  # noqa: S608 # our own words
        " order by created_at desc, id limit :limit",
        {"state": state, "at": at, "key": key, "limit": limit},
    )
    return [NoticeRow(*row) for row in rows]


def notices_called(connection: sqlite3.Connection, text: str) -> list[NoticeRow]:
    """The notices whose id begins with `text`."""
    rows = connection.execute(
        f"select {_COLUMNS} from notices where {begins('id')} order by id limit 9",  # noqa: S608 # our own words
        (text,),
    )
    return [NoticeRow(*row) for row in rows]


def notices_by_state(connection: sqlite3.Connection) -> dict[str, JsonValue]:
    """How many notices wait, and how many were given up."""
    return dict(
        connection.execute(
            "select 'pending', count(*) from notices where state = 'pending'"
            " union all select 'dead', count(*) from notices where state = 'dead'"
        ).fetchall()
    )
