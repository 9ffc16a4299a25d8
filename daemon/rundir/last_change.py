"""When a run directory last changed, for `runward inspect`."""

import os
from typing import Final

_ENTRIES: Final = 10_000
"""Entries of a directory that are asked for their time; a run has a handful."""


def last_change(directory: str) -> float | None:
    """When anything directly in a run directory last changed (Unix seconds); None where nobody can tell."""
    newest: float | None = None
    try:
        with os.scandir(directory) as entries:
            for _, entry in zip(range(_ENTRIES), entries, strict=False):
                try:
                    changed = entry.stat(follow_symlinks=False).st_mtime
                except FileNotFoundError:
                    continue
                newest = changed if newest is None else max(newest, changed)
    except OSError:
        return None
    return newest
