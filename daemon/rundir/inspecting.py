"""Run directories by their paths, as `runward inspect` is given them: which are there, and when they last changed."""

import os
from typing import Final

from runward.daemon.ports import Gone
from runward.daemon.rundir.looking import list_root
from runward.handlers.facts import Unreadable

_ENTRIES: Final = 10_000
"""Entries of a directory that are asked for their time; a run has a handful."""


class CannotList(Exception):
    """The directory can't be listed; the message says why."""


def run_directories(path: str, marker: str) -> list[str]:
    """`path` itself if it has the file `marker`, else the directories in it that have one, in order.

    A file stands for the directory that it lies in. Raises `FileNotFoundError` and `CannotList`.
    """
    place = os.path.realpath(path)
    if not os.path.lexists(place):
        raise FileNotFoundError(path)
    if not os.path.isdir(place):
        place = os.path.dirname(place)
    if _has(place, marker):
        return [place]
    listing = list_root(place)
    if isinstance(listing, Unreadable):
        raise CannotList(f"{place} can't be listed: {listing.why}")
    if isinstance(listing, Gone):
        return []
    return [f"{place}/{name}" for name in sorted(listing.directories) if _has(f"{place}/{name}", marker)]


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


def _has(directory: str, name: str) -> bool:
    return os.path.lexists(os.path.join(directory, name))
