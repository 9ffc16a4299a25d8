"""Opening a file that a session left, below the session's own root: no link is followed, and only regular files are opened."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from runward.daemon.rundir.opening import open_place
from runward.daemon.rundir.tailing import open_regular


class OutsideRoot(Exception):
    """A path that leads, or could lead, out of the root."""


class Place(NamedTuple):
    """A directory below `root`, which the operator named; links on the way to `root` itself are followed."""

    root: str
    directory: str


@contextmanager
def opened_directory(place: Place, below: tuple[str, ...] = ()) -> Iterator[int]:
    """A descriptor of the directory, or of one below it. Raises `OSError` and `OutsideRoot`."""
    descriptor = open_place(place.root, [*_names(_relative(place)), *below])
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_recorded(place: Place, path: str) -> int:
    """A descriptor of the regular file `path`, relative to the place. Raises `OSError`, `NotRegular` and `OutsideRoot`."""
    *parents, name = _names(path) or [""]
    if not name:
        raise OutsideRoot("it names no file")
    with opened_directory(place, tuple(parents)) as within:
        return open_regular(within, name)


def _relative(place: Place) -> str:
    root = place.root.rstrip("/")
    if place.directory == root:
        return ""
    if not place.directory.startswith(f"{root}/"):
        raise OutsideRoot(f"{place.directory} is not below {root}")
    return place.directory[len(root) + 1 :]


def _names(path: str) -> list[str]:
    if path.startswith("/"):
        raise OutsideRoot("it is an absolute path")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names or "\0" in path:
        raise OutsideRoot("it leads upwards")
    return names
