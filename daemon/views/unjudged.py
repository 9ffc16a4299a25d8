"""Native runs that the store does not know yet, or whose end it has not judged: what commands show of them.

Commands look for themselves, so that a run shows up at once, whether the daemon is up or down. Finding that nothing is
missing must cost next to nothing, so the code that reads run directories is imported only if something is.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runward.config.root import NATIVE, Root
from runward.config.settings import Settings
from runward.daemon.processes.proc import ProcessIdentity, state_of
from runward.daemon.processes.whereabouts import own_host
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables import cursors, sessions
from runward.daemon.store.tables.cursors import OpenRun
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.text import short_id
from runward.handlers.model.processes import is_here

if TYPE_CHECKING:
    from runward.handlers.model.sessions import Launch

NOT_JUDGED: Final = "not judged yet"
_END: Final = "exit.json"

MOST: Final = 1000
"""The maximum number of run directories whose times are read: the last ones by name. By default, names begin with
the time."""

_BEHIND_S: Final = 60.0
"""Seconds that a daemon may be behind: an event that is recorded so long after a root last changed says that nothing
in the root was left out.
"""


def unjudged(
    connection: sqlite3.Connection, settings: Settings, limit: int | None = None
) -> list[SessionRow]:
    """The runs that are not judged yet, according to their files, newest first; at most `limit`."""
    places = [each for root in _native(settings) for each in _unknown(connection, root)]
    places.sort(key=_began, reverse=True)
    rows = _rows(settings, places[:limit])
    rows += _ended(connection, settings)
    return sorted(rows, key=lambda row: (-row.started_at, row.key))[:limit]


def unjudged_called(connection: sqlite3.Connection, settings: Settings, text: str) -> list[SessionRow]:
    """The runs unknown to any daemon whose id, key or directory is `text`; if there are none, starts with it."""
    if "/" not in text and text not in ("", ".", ".."):
        unknown = [root for root in _native(settings) if not cursors.is_known(connection, root.name, text)]
        rows = _rows(settings, [(root, text) for root in unknown])
        if rows:
            return rows
    rows = unjudged(connection, settings)
    end = text.removeprefix("…").removeprefix("...")
    exact = [
        row for row in rows if text in _names(row) or short_id(row.session_id, "") == end != row.session_id
    ]
    return exact or [row for row in rows if any(name.startswith(text) for name in _names(row))]


def as_its_files_tell(connection: sqlite3.Connection, settings: Settings, row: SessionRow) -> SessionRow:
    """The session as recorded; if its end is not judged yet, with the end that its files show."""
    if row.status != "running" or row.layout != NATIVE:
        return row
    return next((each for each in _ended(connection, settings) if each.key == row.key), row)


def _names(row: SessionRow) -> tuple[str, str, str]:
    return row.session_id, row.key, os.path.basename(row.path)


def _native(settings: Settings) -> Iterator[Root]:
    return (root for root in settings.roots if root.layout == NATIVE)


def _unknown(connection: sqlite3.Connection, root: Root) -> list[tuple[Root, str]]:
    """The directories in a root that no look has recorded; the last `MOST` by name."""
    try:
        # The time first, then the names: a run that appears in between changes the time again, and shows at the next look.
        changed = os.stat(root.path).st_mtime
        if cursors.recorded_since(connection, root.name, root.path, changed + _BEHIND_S):
            return []
        names = os.listdir(root.path)
    except OSError:
        return []  # `status` shows a root that can't be read
    names = sorted((name for name in names if _may_be_run(root, name)), reverse=True)
    unknown = cursors.unknown_directories(connection, root.name, names)
    return [(root, name) for name in unknown[:MOST]]


def _may_be_run(root: Root, name: str) -> bool:
    """Whether the daemon would look at a directory of this name."""
    is_text = name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)
    return is_text and not name.startswith(".") and not any(fnmatchcase(name, each) for each in root.ignore)


def _began(place: tuple[Root, str]) -> float:
    """When a run directory was last written to: accurate enough for ordering."""
    root, name = place
    try:
        return os.lstat(f"{root.path}/{name}").st_mtime
    except OSError:
        return 0.0


def _rows(settings: Settings, places: Sequence[tuple[Root, str]]) -> list[SessionRow]:
    """The runs in these directories according to their files, and to what launchers recorded that no daemon has read."""
    runs = [(root, name) for root, name in places if _is_run(f"{root.path}/{name}")]
    if not runs:
        return []
    from runward.daemon.views.native_run import row_of

    launches = _launches_in_inbox(settings)
    keyed = [(root, name, f"{NATIVE}:{root.name}/{name}") for root, name in runs]
    rows = [row_of(root.name, f"{root.path}/{name}", launches.get(key)) for root, name, key in keyed]
    return [row for row in rows if row is not None]


def _is_run(path: str) -> bool:
    return not os.path.islink(path) and os.path.isfile(f"{path}/run.json")


def _launches_in_inbox(settings: Settings) -> dict[str, "Launch"]:
    """What launchers recorded, by session key."""
    from runward.daemon.inbox.launches import launch_in, launch_of
    from runward.daemon.inbox.spool import list_inbox

    launched = [launch_in(file) for file in list_inbox(Path(settings.state_dir))]
    return {event.session_key: launch_of(event) for event in launched if event is not None}


def _ended(connection: sqlite3.Connection, settings: Settings) -> list[SessionRow]:
    """The runs that are recorded as running, and whose files or processes say that they are over."""
    paths = {root.name: root.path for root in _native(settings)}
    is_up = holder(Path(settings.state_dir)) is not None
    over = [
        run.session_key
        for run in cursors.open_runs(connection)
        if run.root in paths and _is_over(f"{paths[run.root]}/{run.directory}", run, is_up)
    ]
    # The usual case ends here, before the code that reads run directories is imported.
    if not over:
        return []
    from runward.daemon.store.tables import starts
    from runward.daemon.views.native_run import ended_row

    launched = {**starts.last_read(connection, over), **_launches_in_inbox(settings)}
    rows = [row for key in over if (row := sessions.session(connection, key)) is not None]
    return [ended_row(row, launched.get(row.key)) for row in rows]


def _is_over(path: str, run: OpenRun, is_up: bool) -> bool:
    """Whether a run may be over. A running daemon notices when a run's processes have ended."""
    if os.path.lexists(f"{path}/{_END}"):
        return True
    processes = _processes(run)
    return not is_up and bool(processes) and all(state_of(each) == "gone" for each in processes)


def _processes(run: OpenRun) -> Sequence[ProcessIdentity]:
    """The processes that a run names, if their numbers are valid here."""
    if not is_here(run.host, own_host()):
        return ()
    named = (json.loads(text) for text in (run.launcher, run.process) if text is not None)
    return [ProcessIdentity(pid, ticks, boot) for pid, ticks, boot, *_ in named]
