"""What the store knows about journals: where our lines are, and which journals must be compared with that.

The keys of a session's events begin with the session's own key, so its lines are found by the index on keys. A line's
number begins with its event's. An index on directories would double the cost of marking a line.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from runward.daemon.disk.durable import make_durably, write_durably
from runward.daemon.rundir.journals import Journal, StandingLines
from runward.daemon.store.packed_document import COLUMNS, unpack
from runward.daemon.store.rows import rows_of, values_of
from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import PAYLOAD
from runward.daemon.store.transaction import Row, Statement, as_bytes, as_int, listed
from runward.handlers.journal.place import OWN_PLACE

SETTLE_PERIOD: Final = 3600.0
"""Seconds after which no crash can undo a marked line (at the latest after twice as many)."""

LISTED: Final = 1000
"""Events whose lines are listed in one transaction: it must not hold up a verdict."""

STOPPED_CLEANLY: Final = Statement("update daemon set stopped_cleanly = 1 where id = 1", [()], exact=True)
COMPARED: Final = "delete from uncompared where directory = ? and name = ?"
MARKED_LATE: Final = (
    "update daemon set settled = min(settled, ?1 - 1), settling = min(settling, ?1 - 1) where id = 1"
)
"""A line was marked although its number had settled: it counts as new."""

ADOPTED: Final = "insert or replace into adopted_lines (id, content) values (?, ?)"
"""The text in place of a line, which says the same."""

_SETTLE: Final = (
    # Two bounds that move one after the other: what lies below the first was marked at least one whole period ago.
    "update daemon set settled = settling, "
    " settling = max(settling, (select coalesce(max(id), 0) from journal_lines)),"
    " settling_at = ?1 where id = 1"
)
_LIST: Final = (
    "insert or ignore into uncompared (directory, name, session_key) select l.directory, l.name, e.lane"
    ' from journal_lines l join events e on e.seq = l.event where l.id > ? and l.id <= ? and l."offset" is not null'
    " and l.content is not null"
)
_LIST_OWED: Final = (
    "insert or ignore into uncompared (directory, name, session_key)"
    " select o.directory, o.name, e.lane from outbox o join events e on e.seq = o.event"
)
_LIST_OPEN: Final = (
    "insert or ignore into uncompared (directory, name, session_key)"
    " select l.directory, l.name, e.lane from cursors c"
    " cross join events e on e.key > c.session_key || '#' and e.key < c.session_key || '$'"
    " cross join journal_lines l on l.id between 256 * e.seq and 256 * e.seq + 255"
    " where c.phase = 'open' and l.\"offset\" is not null and l.content is not null"
)
_STANDING: Final = (
    'select l.directory, l.name, l.id, coalesce(a.content, l.content), l."offset", l.places from json_each(?) k'
    " cross join events e on e.key > k.value || '#' and e.key < k.value || '$' and e.lane = k.value"
    " cross join journal_lines l on l.id between 256 * e.seq and 256 * e.seq + 255"
    " left join adopted_lines a on a.id = l.id"
    ' where l."offset" is not null and l.content is not null order by l.id'
)

_OLDER: Final = (
    "select s.key from json_each(?) k join sessions s on s.key = k.value join roots r on r.name = s.root"
    " where s.started_at < r.first_seen_at"
)


async def list_uncompared(store: Store) -> None:
    """List the journals that a crash may have harmed. Raises `sqlite3.Error` and `CommitUnknown`.

    These are the journals of open sessions, those with unwritten lines, and those with marked lines that haven't
    settled. Listing a journal again changes nothing.
    """
    await store.run([Statement(_LIST_OWED, [()]), Statement(_LIST_OPEN, [()])], "journals")
    query = "select settled, coalesce((select max(id) from journal_lines), 0) from daemon"
    ((low, high),) = rows_of(tuple[int, int], await store.read(query))
    while low < high:
        following = min(high, low + 256 * LISTED)
        await store.run([Statement(_LIST, [(low, following)])], "journals")
        low = following


async def settle(store: Store, now: float) -> int:
    """Move the bound on, if it is time (seconds since the boot); returns the number up to which lines have settled."""
    query = "select settled, settling, settling_at from daemon"
    ((settled, settling, last),) = rows_of(tuple[int, int, float], await store.read(query))
    if last <= now < last + SETTLE_PERIOD:  # a value before `last` means another boot
        return settled
    await store.run([Statement(_SETTLE, [(now,)])], "journals")
    return settling


async def uncompared(store: Store) -> dict[Journal, str]:
    """The listed journals with the keys of their sessions."""
    sessions: dict[Journal, str] = {}
    last: Row = ("", "")
    while True:
        # In pages, by the key: after a crash of a machine with many runs this list is long, and no read may take long.
        rows = await store.read(
            "select directory, name, session_key from uncompared where (directory, name) > (?, ?)"
            " order by directory, name limit 5000",
            last,
        )
        if not rows:
            return sessions
        sessions |= {(directory, name): key for directory, name, key in rows_of(tuple[str, str, str], rows)}
        last = rows[-1][:2]


async def is_restored(store: Store) -> bool:
    """Whether this store was ever restored from a backup: then journals may hold lines that it doesn't know."""
    return bool(await store.read("select 1 from restores limit 1"))


async def older_than_their_roots(store: Store, sessions: Iterable[str]) -> frozenset[str]:
    """Those of these sessions that began before this store knew their root: an earlier store may have written there."""
    rows = await store.read(_OLDER, (listed(sessions),))
    return frozenset(values_of(str, rows))


async def standing_lines(store: Store, sessions: Iterable[str]) -> dict[Journal, list[StandingLines]]:
    """Our lines in the journals of these sessions, in the order in which they were queued."""
    return _by_journal(await store.read(_STANDING, (listed(sessions),)))


def read_standing_lines(connection: sqlite3.Connection, session: str) -> dict[Journal, list[StandingLines]]:
    """The same for one session, for commands."""
    return _by_journal(connection.execute(_STANDING, (listed([session]),)))


async def under_repair(store: Store) -> dict[Journal, str]:
    """The journals whose repair isn't decided yet, with the keys of their events."""
    rows = await store.read(
        f"select {PAYLOAD}, e.key from jobs j indexed by jobs_repairing join events e on e.seq = j.event"  # noqa: S608 # our own words
        " where j.state in ('waiting', 'held') and j.handler = 'journal/repair'"
        f" union all select {PAYLOAD}, e.key from jobs j join events e on e.seq = j.event"
        " where j.state = 'running' and j.handler = 'journal/repair'"
    )
    sessions: dict[Journal, str] = {}
    for payload, key in rows:
        try:
            fields = json.loads(str(payload))
            sessions[(str(fields["directory"]), str(fields["name"]))] = str(key)
        except (ValueError, TypeError, KeyError, RecursionError):
            continue  # its job is held with the reason
    return sessions


async def given_up(store: Store, events: Iterable[str]) -> frozenset[str]:
    """Those of these events whose repair was discarded."""
    rows = await store.read(
        "select e.key from json_each(?) k cross join events e on e.key = k.value"
        " cross join jobs j on j.id between 32 * e.seq and 32 * e.seq + 31 where j.state = 'discarded'",
        (listed(events),),
    )
    return frozenset(values_of(str, rows))


def _by_journal(rows: Iterable[Row]) -> dict[Journal, list[StandingLines]]:
    by_journal: dict[Journal, list[StandingLines]] = {}
    known = rows_of(tuple[str, str, int, bytes, int, str | None], rows)
    for directory, name, row, content, offset, places in known:
        lines = StandingLines(row, content, offset, _places(places))
        by_journal.setdefault((directory, name), []).append(lines)
    return by_journal


def dump_places(places: tuple[tuple[int, int], ...]) -> str | None:
    """Pieces in the store's format."""
    return json.dumps(places) if places else None


def _places(text: str | None) -> tuple[tuple[int, int], ...]:
    try:
        return (
            () if text is None else tuple((int(offset), int(length)) for offset, length in json.loads(text))
        )
    except (ValueError, TypeError, RecursionError):
        return ()  # then it isn't found in one piece, and is written again


_WRITTEN: Final = (
    "select l.directory, l.name, min(e.lane) from journal_lines l join events e on e.seq = l.event"
    ' where l.directory glob ? and l."offset" is not null and l.content is not null group by 1, 2'
)
_LIST_GONE: Final = "insert or ignore into uncompared (directory, name, session_key) values (?, ?, ?)"
# The journals of native runs lie in the runs' own directories, which a restored state directory doesn't bring back.
_PACKED: Final = "select document from packed where session_key not glob 'native:*'"


def have_compared(connection: sqlite3.Connection, state: Path) -> None:
    """List the gone journals of sessions that aren't packed: the next daemon finds the damage and repairs it."""
    rows = connection.execute(_WRITTEN, (f"{OWN_PLACE}/*",)).fetchall()
    connection.executemany(_LIST_GONE, [row for row in rows if not os.path.lexists(state / row[0] / row[1])])


def write_packed(connection: sqlite3.Connection, state: Path) -> None:
    """Write missing journals of packed sessions, which daemons don't look at. Raises `OSError`, `ValueError`."""
    adopted: dict[int, bytes] = dict(connection.execute("select id, content from adopted_lines"))
    for (document,) in connection.execute(_PACKED):
        for (directory, name), content in _journals(document, adopted):
            if not os.path.lexists(state / directory / name):
                make_durably(state, directory)
                write_durably(state / directory, name, content)


def _journals(document: bytes, adopted: Mapping[int, bytes]) -> Iterator[tuple[Journal, bytes]]:
    """The journals of a packed session that are in our own state, with our lines in their order there."""
    lines: dict[Journal, list[tuple[int, bytes]]] = {}
    for row in unpack(document).rows["journal_lines"]:
        line = dict(zip(COLUMNS["journal_lines"], row, strict=True))
        directory = str(line["directory"])
        if (
            directory.startswith(f"{OWN_PLACE}/")
            and line["offset"] is not None
            and line["content"] is not None
        ):
            content = adopted.get(as_int(line["id"]), as_bytes(line["content"]))
            lines.setdefault((directory, str(line["name"])), []).append((as_int(line["offset"]), content))
    for journal, contents in lines.items():
        yield journal, b"".join(content for _, content in sorted(contents))
