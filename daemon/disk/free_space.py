"""How much is free on a disk, and below what limit it is low."""

import os
from pathlib import Path
from typing import Final, NamedTuple

_SHARE: Final = 10
"""The limit is at most this part of the file system, so that the daemon also works on a small one."""


class Space(NamedTuple):
    """Of a file system: bytes that are free for this user, bytes in all, and whether no more files can be created."""

    free: int
    total: int
    no_files: bool = False


def space_of(place: Path | int) -> Space:
    """The space where a directory or an open file is. Raises `OSError`."""
    found = os.statvfs(place)
    # Where files aren't counted, as on btrfs, there are 0 of 0.
    no_files = found.f_files > 0 and found.f_favail == 0
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, no_files)


def limit_of(space: Space, low_disk: int) -> int:
    """The free bytes below which a disk is low, by the setting and by the size of the disk."""
    return min(low_disk, space.total // _SHARE)


def rounded(count: int) -> str:
    """This many bytes for people to read, as round as limits are."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count} B"
