"""What is remembered about each session's files between two looks."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.values import listed, stored_text
from runward.handlers.model.sessions import ProcessesOf, RunProcesses
from runward.handlers.sessions.observe import NEVER_SEEN, read_watched

UPSERT: Final = Write(
    "insert into cursors (key, root, directory, session_key, phase, state, activity) values (?, ?, ?, ?, ?, ?, ?)"
    " on conflict (key) do update set root = excluded.root, directory = excluded.directory,"
    " phase = excluded.phase, state = excluded.state, activity = excluded.activity",
    exact=False,
)


async def remembered(store: Store, keys: Iterable[str]) -> dict[str, str]:
    """What is remembered of these run directories, by cursor key."""
    rows = await store.read(
        "select key, cast(state as blob) from cursors where key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {str(key): stored_text(state) for key, state in rows}


class OpenCursor(NamedTuple):
    """A place with an open attempt, its session, and what is remembered."""

    root: str
    place: str
    session_key: str
    state: str


async def open_cursors(store: Store) -> list[OpenCursor]:
    """Every place with an open attempt."""
    rows = await store.read(
        "select root, directory, session_key, cast(state as blob) from cursors where phase = 'open'"
    )
    return [
        OpenCursor(str(root), str(place), str(key), stored_text(state)) for root, place, key, state in rows
    ]


async def owes_of_root(store: Store, root: str) -> bool:
    """Whether decisions are pending for a session that was seen in this root."""
    rows = await store.read(
        "select 1 from (select lane from jobs where state in ('waiting', 'held')"
        "  union all select lane from jobs where state = 'running') j"
        " join cursors c on c.session_key = j.lane where c.root = ? limit 1",
        (root,),
    )
    return bool(rows)


async def known_in_root(store: Store, root: str, most: int) -> list[OpenCursor]:
    """Places that were seen in this root, with what is remembered about them: the latest first, at most this many."""
    rows = await store.read(
        "select root, directory, session_key, cast(state as blob) from cursors where root = ? order by rowid desc limit ?",
        (root, most),
    )
    return [
        OpenCursor(str(name), str(place), str(key), stored_text(state)) for name, place, key, state in rows
    ]


async def processes_of(store: Store, keys: Iterable[str]) -> dict[str, RunProcesses]:
    """The processes that the files of these sessions' runs name, as remembered from the last look."""
    places = {key.partition(":")[2]: key for key in keys}
    found = {}
    for place, text in (await remembered(store, places)).items() if places else ():
        watched = read_watched(text) or NEVER_SEEN  # no known process in its files
        found[places[place]] = RunProcesses(watched.launcher, watched.process, watched.host)
    return found


CURSORS: Final = Table(
    writes=(UPSERT,),
    answers={ProcessesOf: answers_by(processes_of, lambda asked: asked.key, RunProcesses())},
)
