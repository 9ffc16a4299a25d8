"""What replies used, by hour, session, model, speed and size of the request; and whose replies are not counted yet.

A look at a transcript adds what it counted, in the transaction that stores how far it has read. If the result of a commit
is unknown, the same look may be written again. So looks are numbered, and a number that is there adds nothing. A
transcript that is read from its beginning takes back all that was counted of it before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from runward.daemon.store.batch import Rows, Write
from runward.daemon.store.rows import value_of
from runward.daemon.store.tables.table import Table
from runward.daemon.store.transaction import listed
from runward.handlers.usage.counting import HOUR, Counted

_FORGET: Final = Write("delete from usage where session_key = ?", exact=False)
_FORGET_LOOKS: Final = Write("delete from usage_read where session_key = ?", exact=False)

_ADD: Final = Write(
    "insert into usage (session_key, hour, model, speed, size, replies, fresh_input, cache_read, cache_write_5m,"
    " cache_write_1h, output, reported_nanousd) select ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13"
    " where coalesce((select looks from usage_read where session_key = ?1), 0) < ?2"
    " on conflict do update set replies = replies + excluded.replies, fresh_input = fresh_input + excluded.fresh_input,"
    " cache_read = cache_read + excluded.cache_read, cache_write_5m = cache_write_5m + excluded.cache_write_5m,"
    " cache_write_1h = cache_write_1h + excluded.cache_write_1h, output = output + excluded.output,"
    " reported_nanousd = coalesce(reported_nanousd + excluded.reported_nanousd, excluded.reported_nanousd, reported_nanousd)",
    exact=False,
)

_READ: Final = Write(
    "insert into usage_read (session_key, looks) values (?, ?)"
    " on conflict do update set looks = max(looks, excluded.looks)",
    exact=False,
)


def told(key: str, counted: Sequence[Counted], look: int) -> tuple[Rows, ...]:
    """What this look at a session counted. The first one begins at the beginning of its files."""
    anew = [(key,)] if look == 1 else []
    return (
        Rows(_FORGET, anew),
        Rows(_FORGET_LOOKS, anew),
        Rows(_ADD, [(key, look, *each) for each in counted]),
        Rows(_READ, [(key, look)]),
    )


def sessions_missing(connection: sqlite3.Connection) -> int:
    """How many sessions were read by a version that counted nothing, and not again since."""
    row = connection.execute("select count(*) from usage_read where looks = 0").fetchone()
    return value_of(int, row) or 0


class Spent(NamedTuple):
    """What a session used, as far as it has one price."""

    session_key: str
    counted: Counted


def spent(connection: sqlite3.Connection, first: int, end: int) -> list[Spent]:
    """What was used from hour `first` until before hour `end` (since 1970)."""
    return _spent(connection.execute(f"{_SPENT} where hour >= ? and hour < ?", (first, end)))


def is_used_since(connection: sqlite3.Connection, since: float) -> bool:
    """Whether any reply is counted in the hour of this moment (Unix seconds) or later."""
    found = connection.execute("select 1 from usage where hour >= ? limit 1", (int(since // HOUR),))
    return found.fetchone() is not None


def spent_by(connection: sqlite3.Connection, keys: Sequence[str]) -> list[Spent]:
    """What these sessions used."""
    wanted = (listed(keys),)
    return _spent(
        connection.execute(f"{_SPENT} where session_key in (select value from json_each(?))", wanted)  # noqa: S608 # our own words
    )


_SPENT: Final = (
    "select session_key, hour, model, speed, size, replies, fresh_input, cache_read, cache_write_5m, cache_write_1h,"
    " output, reported_nanousd from usage"
)


def _spent(rows: sqlite3.Cursor) -> list[Spent]:
    sums = (Spent(key, Counted(*counted)) for key, *counted in rows)
    return [each for each in sums if not each.counted.is_nothing()]


def launchers(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, str]:
    """The launched runs that these sessions were started in, by the sessions' keys."""
    return dict(
        connection.execute(
            "select linked, launcher from links where linked in (select value from json_each(?))",
            (listed(keys),),
        )
    )


def playbooks_of(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, str]:
    """The playbooks of these sessions, by their keys."""
    return dict(
        connection.execute(
            "select key, playbook from sessions"
            " where playbook is not null and key in (select value from json_each(?))",
            (listed(keys),),
        )
    )


def chains_of(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, str]:
    """The chains of whose runs these sessions are steps, by their keys."""
    return dict(
        connection.execute(
            "select s.session_key, r.chain from chain_steps s join chain_runs r on r.id = s.run"
            " where s.session_key in (select value from json_each(?))",
            (listed(keys),),
        )
    )


USAGE: Final = Table(
    writes=(_FORGET, _FORGET_LOOKS, _ADD, _READ),
    goes_with_session=(
        "delete from usage where session_key = ?",
        "delete from usage_read where session_key = ?",
    ),
)
