"""What replies used, by hour, session, model, speed and size of the request, apart for those whose cost the agent reported; and
whose replies are not counted yet.

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
    " cache_write_1h, output, reported_nanousd, is_reported) select ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
    " ?13 is not null"
    " where coalesce((select looks from usage_read where session_key = ?1), 0) < ?2"
    " on conflict do update set replies = replies + excluded.replies, fresh_input = fresh_input + excluded.fresh_input,"
    " cache_read = cache_read + excluded.cache_read, cache_write_5m = cache_write_5m + excluded.cache_write_5m,"
    " cache_write_1h = cache_write_1h + excluded.cache_write_1h, output = output + excluded.output,"
    " reported_nanousd = reported_nanousd + excluded.reported_nanousd",
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


class Tokens(NamedTuple):
    """Tokens of each kind; none is in two of them."""

    input: int
    cache_read: int
    cache_write: int
    output: int


def tokens_by_model(connection: sqlite3.Connection, most: int) -> dict[str, Tokens]:
    """What was ever counted, by model ("" if the files name none), also of sessions that were pruned.

    The models that were met first have rows of their own. If there are more than `most`, what those used that were met
    later is under `OTHERS`.
    """
    # In the order in which they were met, and not by what they used: else a model would come and go, and with it its sum.
    rows = connection.execute(
        "with sums as (select model, min(hour) as met, sum(fresh_input) as input, sum(cache_read) as cache_read,"
        "  sum(cache_write_5m + cache_write_1h) as cache_write, sum(output) as output from usage group by model),"
        " named as (select iif(row_number() over (order by met, model) <= ?1, model, ?2) as name, * from sums)"
        " select name, sum(input), sum(cache_read), sum(cache_write), sum(output) from named"
        " group by name order by min(met), name",
        (most, OTHERS),
    )
    return {name: Tokens(*counts) for name, *counts in rows}


OTHERS: Final = "(others)"

_NEWEST: Final = 10_000
"""Sums that are looked at for the models that replied last."""


def newest_models(connection: sqlite3.Connection) -> list[str]:
    """The models that replied last."""
    rows = connection.execute(
        "select distinct model from (select model from usage where model <> '' order by hour desc limit ?)"
        " order by model",
        (_NEWEST,),
    )
    return [model for (model,) in rows]


class Spent(NamedTuple):
    """What a session used, as far as it has one price."""

    session_key: str
    counted: Counted


def spent(connection: sqlite3.Connection, first: int, end: int) -> list[Spent]:
    """What was used from hour `first` until before hour `end` (since 1970)."""
    return _spent(
        connection.execute(f"{_SPENT} where hour >= ? and hour < ? and session_key <> ''", (first, end))
    )


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
    """The sessions that these ones are part of, the outermost ones, by the sessions' keys."""
    return dict(
        connection.execute(
            "with recursive above as (select linked, launcher from links"
            " where linked in (select value from json_each(?)) union"
            " select above.linked, links.launcher from above join links on links.linked = above.launcher)"
            " select linked, launcher from above where launcher not in (select linked from links)",
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


# The tokens of each model are a counter for collectors, which take a smaller number for a new beginning, and count all of it
# again. So what pruned sessions used stays in it: as one sum for each model, of no session and of the hour 0.
_KEEP_PRUNED: Final = (
    "insert into usage (hour, session_key, model, speed, size, replies, fresh_input, cache_read, cache_write_5m,"
    " cache_write_1h, output, is_reported) select 0, '', model, '', 0, sum(replies), sum(fresh_input), sum(cache_read),"
    " sum(cache_write_5m), sum(cache_write_1h), sum(output), 0 from usage where session_key = ? group by model"
    " on conflict do update set replies = replies + excluded.replies, fresh_input = fresh_input + excluded.fresh_input,"
    " cache_read = cache_read + excluded.cache_read, cache_write_5m = cache_write_5m + excluded.cache_write_5m,"
    " cache_write_1h = cache_write_1h + excluded.cache_write_1h, output = output + excluded.output"
)

USAGE: Final = Table(
    writes=(_FORGET, _FORGET_LOOKS, _ADD, _READ),
    goes_with_session=(
        _KEEP_PRUNED,
        "delete from usage where session_key = ?",
        "delete from usage_read where session_key = ?",
    ),
)
