"""Making the parts of many bundles durable at once: where there are many, each file system is synced once.

A run may have changed anything in its directory meanwhile. What it took from us needs no sync: it is found to be missing
when the parts get their names, and is made again.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from runward.daemon.disk.durable import sync_directory
from runward.daemon.faults import point
from runward.daemon.rundir.journals import MANY
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, LISTED, REGULAR, held, opened

_TAKEN: Final = frozenset({*ABSENT, LINK, errno.ENXIO, errno.EACCES})
"""What the run can make of our files. Such a file counts as missing when the parts get their names."""


def sync_parts(
    written: Mapping[str, Sequence[str]], sync_file_system: Callable[[int], None]
) -> dict[str, str]:
    """Make these files durable, by their directories; for a directory without files, the names in it.

    The answer says for which directories that failed, and why. Their files must be written again, because the next sync
    may only say that nothing is left to do.
    """
    point("bundle.sync.before")
    if sum(max(1, len(names)) for names in written.values()) <= MANY:
        refused = _each(written, written)
    else:
        by_file_system, refused = _by_file_system(written)
        for directories in by_file_system:
            refused |= _together(directories, written, sync_file_system)
    point("bundle.sync.after")
    return refused


def _together(
    directories: Sequence[str], written: Mapping[str, Sequence[str]], sync_file_system: Callable[[int], None]
) -> dict[str, str]:
    descriptor = _one_of(directories)
    if descriptor is None:
        return _each(directories, written)
    with held(descriptor):
        try:
            sync_file_system(descriptor)
        except OSError as error:
            return dict.fromkeys(directories, f"its file system isn't synced: {error.strerror}")
    return {}


def _by_file_system(directories: Iterable[str]) -> tuple[list[list[str]], dict[str, str]]:
    """The directories that are there, and why the others can't be reached now."""
    by_device: dict[int, list[str]] = {}
    refused: dict[str, str] = {}
    for directory in directories:
        try:
            device = os.stat(directory, follow_symlinks=False).st_dev
        except OSError as error:
            if error.errno not in ABSENT:
                refused[directory] = f"not synced: {error.strerror}"
        else:
            by_device.setdefault(device, []).append(directory)
    return list(by_device.values()), refused


def _one_of(directories: Sequence[str]) -> int | None:
    """A descriptor of the first of them that can be opened: a run may have closed its own to everybody."""
    for directory in directories:
        try:
            return os.open(directory, LISTED)
        except OSError:
            continue
    return None


def _each(directories: Iterable[str], written: Mapping[str, Sequence[str]]) -> dict[str, str]:
    refused: dict[str, str] = {}
    for directory in directories:
        try:
            _one(directory, written[directory])
        except OSError as error:
            refused[directory] = f"not synced: {error.strerror}"
    return refused


def _one(directory: str, names: Sequence[str]) -> None:
    try:
        within = os.open(directory, DIRECTORY)
    except OSError as error:
        if error.errno in ABSENT or error.errno == LINK:
            return
        raise
    with held(within):
        if not names:
            with opened(".", LISTED, within) as listing:
                sync_directory(listing)
        for name in names:
            _file(within, name)


def _file(within: int, name: str) -> None:
    try:
        descriptor = os.open(name, REGULAR, dir_fd=within)
    except OSError as error:
        if error.errno in _TAKEN:
            return
        raise
    with held(descriptor):
        # A pipe or a device in its place may not support a sync.
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)
