"""What replies used, by hour, session, model, speed and size of the request; and whose replies are not counted yet.

A look at a transcript adds what it counted, in the transaction that stores how far it has read. If the result of a commit
is unknown, the same look may be written again. So looks are numbered, and a number that is there adds nothing. A
transcript that is read from its beginning takes back all that was counted of it before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from runward.daemon.store.batch import Rows, Write
from runward.daemon.store.rows import value_of
from runward.daemon.store.tables.table import Table

if TYPE_CHECKING:
    from runward.handlers.usage.counting import Counted

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


USAGE: Final = Table(
    writes=(_FORGET, _FORGET_LOOKS, _ADD, _READ),
    goes_with_session=(
        "delete from usage where session_key = ?",
        "delete from usage_read where session_key = ?",
    ),
)
