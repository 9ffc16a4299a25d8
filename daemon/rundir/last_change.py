"""When a session's files last changed: for people who ask whether it is still running, and for runs that are arriving."""

import os
from typing import Final

from runward.daemon.rundir.opening import ABSENT, unreadable
from runward.handlers.bundle.parts import is_part_or_temporary
from runward.handlers.facts import LastChange
from runward.handlers.layouts import native
from runward.handlers.unreadable import Unreadable

_ENTRIES: Final = 10_000
"""The maximum number of entries whose times are read; a run has only a few."""


def last_change(path: str) -> float | None:
    """When a log, or anything directly in a run directory, last changed (Unix seconds); None if unknown."""
    newest: float | None = None
    try:
        with os.scandir(path) as entries:
            for _, entry in zip(range(_ENTRIES), entries, strict=False):
                try:
                    changed = entry.stat(follow_symlinks=False).st_mtime
                except FileNotFoundError:
                    continue
                newest = changed if newest is None else max(newest, changed)
    except NotADirectoryError:
        return _changed(path)
    except OSError:
        return None
    return newest


def _changed(path: str) -> float | None:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return None


def change_of_run(path: str) -> LastChange | Unreadable | None:
    """When anything below a native run's directory changed last, except what Runward writes; None without an `exit.json`.

    Only times are read, so a link that appears in the place of a directory reveals nothing. Of a tree that is larger
    than a run's, a part is looked at.
    """
    newest = ended = 0.0
    left, todo = _ENTRIES, [path]
    while todo and left:
        directory = todo.pop()
        try:
            with os.scandir(directory) as entries:
                for _, entry in zip(range(left), entries, strict=False):
                    left -= 1
                    if directory == path and (entry.name in native.OURS or is_part_or_temporary(entry.name)):
                        continue
                    try:
                        changed = entry.stat(follow_symlinks=False).st_ctime_ns / 1e9
                    except FileNotFoundError:
                        continue
                    newest = max(newest, changed)
                    if directory == path and entry.name == native.EXIT:
                        ended = changed
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(f"{directory}/{entry.name}")
        except OSError as error:
            if error.errno not in ABSENT and directory == path:
                return unreadable(error)
    return LastChange(newest, ended) if ended else None
