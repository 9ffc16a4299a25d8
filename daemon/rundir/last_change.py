"""When a session's files last changed, for people who ask whether it is still running."""

import os
from typing import Final

MOST_ENTRIES: Final = 10_000
"""The maximum number of entries whose times are read; a run has only a few."""


def last_change(path: str) -> float | None:
    """When a log, or anything directly in a run directory, last changed (Unix seconds); None if unknown."""
    newest: float | None = None
    try:
        with os.scandir(path) as entries:
            for _, entry in zip(range(MOST_ENTRIES), entries, strict=False):
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
