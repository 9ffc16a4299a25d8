"""What is remembered of each place where a session writes, and which of them has an open attempt."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.root import NATIVE
from runward.daemon.store.batch import Write
from runward.daemon.store.rows import rows_of, select, value_of, values_of
from runward.daemon.store.tables.table import Table, answers_by
from runward.daemon.store.transaction import listed, stored_text
from runward.handlers.sessions.stored_fields import WATCHED

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.sessions import RunProcesses

# Its session stays: a place is that of the session which was first seen there.
UPSERT: Final = Write(
    "insert into cursors (key, root, directory, session_key, phase, state, activity) values (?, ?, ?, ?, ?, ?, ?)"
    " on conflict (key) do update set root = excluded.root, directory = excluded.directory,"
    " phase = excluded.phase, state = excluded.state, activity = excluded.activity",
    exact=False,
)


async def remembered(store: Reader, keys: Iterable[str]) -> dict[str, str]:
    """What is remembered of these run directories, by cursor key."""
    rows = await store.read(
        # As bytes: a damaged text must cost its own directory a new look, not fail the query for all of them.
        "select key, cast(state as blob) from cursors where key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {key: stored_text(state) for key, state in rows_of(tuple[str, bytes], rows)}


def remembered_of(connection: sqlite3.Connection, session_key: str) -> str | None:
    """What the daemon remembers of a session between looks, as JSON text; for a native run, of its directory."""
    layout, _, directory = session_key.partition(":")
    key = directory if layout == NATIVE else session_key
    return value_of(str, connection.execute("select state from cursors where key = ?", (key,)).fetchone())


class OpenCursor(NamedTuple):
    """A place with an open attempt, its session, and what is remembered."""

    root: str
    place: str
    session_key: str
    state: str


async def open_cursors(store: Reader) -> list[OpenCursor]:
    """Every place with an open attempt."""
    return await _chosen(store, "phase = 'open'")


async def known_in_root(store: Reader, root: str, most: int) -> list[OpenCursor]:
    """Places that were seen in this root, with what is remembered about them: the latest first, at most this many."""
    return await _chosen(store, "root = ? order by rowid desc limit ?", root, most)


async def _chosen(store: Reader, which: str, *values: str | int) -> list[OpenCursor]:
    query = select(OpenCursor, f"from cursors where {which}", place="directory", state="cast(state as blob)")
    return rows_of(OpenCursor, await store.read(query, values), state=stored_text)


async def owes_of_root(store: Reader, root: str) -> bool:
    """Whether decisions are pending for a session that was seen in this root."""
    # From the few open jobs to their cursors: the other way round, every session of the root would be looked at.
    rows = await store.read(
        "select 1 from (select lane from jobs where state in ('waiting', 'held')"
        "  union all select lane from jobs where state = 'running') j"
        " join cursors c on c.session_key = j.lane where c.root = ? limit 1",
        (root,),
    )
    return bool(rows)


async def processes_of(store: Reader, keys: Iterable[str]) -> dict[str, RunProcesses]:
    """The processes that the files of these sessions' runs name, as remembered from the last look."""
    from runward.handlers.model.sessions import RunProcesses
    from runward.handlers.sessions.observe import NEVER_SEEN, read_watched

    places = {key.partition(":")[2]: key for key in keys}
    by_session = {}
    for place, text in (await remembered(store, places)).items() if places else ():
        watched = read_watched(text) or NEVER_SEEN  # no known process in its files
        by_session[places[place]] = RunProcesses(watched.launcher, watched.process, watched.host)
    return by_session


class Directory(NamedTuple):
    """A run directory that was looked at; `phase` is `none` if nothing in it began a session."""

    root: str
    directory: str
    session_key: str
    phase: str
    path: str


def directories_called(connection: sqlite3.Connection, text: str, limit: int) -> list[Directory]:
    """The run directories called `text` or `root/text`; if there are none, whose name begins with it."""
    for which in (
        "c.key = ?1 or c.directory = ?1",
        "substr(c.key, 1, length(?1)) = ?1 or substr(c.directory, 1, length(?1)) = ?1",
    ):
        query = select(
            Directory,
            f"from cursors c join roots r on r.name = c.root where {which} order by c.key limit ?2",
            "c",
            path="r.path || '/' || c.directory",
        )
        directories = rows_of(Directory, connection.execute(query, (text, limit)))
        if directories:
            return directories
    return []


_MOST_OPEN = 500


_BEING_OPENED = (
    "not exists (select 1 from sessions s where s.key = c.session_key) and ("
    " exists (select 1 from jobs j where j.lane = c.session_key and j.state in ('waiting', 'held'))"
    " or exists (select 1 from jobs j where j.state = 'running' and j.lane = c.session_key))"
)
"""Whether the session of a cursor `c` was seen, and a later transaction will open it."""


_OPENED_SOON = (
    "select l.lane from ("
    " select lane from jobs where state in ('waiting', 'held') and lane > ?1 || '/' and lane < ?1 || '0'"
    " union select lane from jobs where state = 'running' and lane > ?1 || '/' and lane < ?1 || '0'"
    ") l where not exists (select 1 from sessions s where s.key = l.lane)"
)
"""The lanes of a root's native sessions that were seen, and that a later transaction will open."""


class OpenRun(NamedTuple):
    """A native run that is recorded as running; `launcher` and `process` are JSON texts, if it names them."""

    session_key: str
    root: str
    directory: str
    launcher: str | None
    process: str | None
    host: str | None


def recorded_since(connection: sqlite3.Connection, root: str, path: str, at: float) -> bool:
    """Whether this root was watched, and the last event was recorded at `at` (Unix seconds) or later."""
    watched = connection.execute("select 1 from roots where name = ? and path = ?", (root, path)).fetchone()
    last = connection.execute("select recorded_at from events order by seq desc limit 1").fetchone()
    return watched is not None and last is not None and last[0] >= at


def unknown_directories(connection: sqlite3.Connection, root: str, names: Sequence[str]) -> list[str]:
    """Those of these directories of a root that were not looked at.

    Each name is looked up, because a root whose runs were moved away may have had far more of them than it has.
    """
    if not names:
        return []
    rows = connection.execute(
        "select n.value from json_each(?2) n where not exists"
        " (select 1 from cursors c where c.key = ?1 || '/' || n.value)",
        (root, listed(names)),
    )
    unknown = set(values_of(str, rows))
    opened = connection.execute(_OPENED_SOON, (f"{NATIVE}:{root}",))
    begin = len(f"{NATIVE}:{root}/")
    unknown |= {lane[begin:] for (lane,) in opened}
    return [name for name in names if name in unknown]


def is_known(connection: sqlite3.Connection, root: str, directory: str) -> bool:
    """Whether this run directory was looked at."""
    row = connection.execute(
        f"select 1 from cursors c where c.key = ? and not ({_BEING_OPENED})",  # noqa: S608 # our own words
        (f"{root}/{directory}",),
    ).fetchone()
    return row is not None


def open_runs(connection: sqlite3.Connection) -> list[OpenRun]:
    """The native runs that are recorded as running, last seen first."""
    # The plus before the row's number: else SQLite would read all cursors in that order, to find the few open ones.
    query = select(
        OpenRun,
        "from cursors where phase = 'open' and session_key >= ?1 || ':'"
        " and session_key < ?1 || ';' order by +rowid desc limit ?2",
        **{name: f"json_extract(state, '{WATCHED[name]}')" for name in ("launcher", "process", "host")},
    )
    return rows_of(OpenRun, connection.execute(query, (NATIVE, _MOST_OPEN)))


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.model.sessions import ProcessesOf, RunProcesses

    return Table(
        writes=(UPSERT,),
        answers={ProcessesOf: answers_by(processes_of, lambda asked: asked.key, RunProcesses())},
        # What is remembered of a transcript has what it says itself: where the agent worked.
        moved=(f"update cursors set state = moved_json(state) where session_key glob '{NATIVE}:*'",),  # noqa: S608 # our own words
    )
