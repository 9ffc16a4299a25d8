"""A path below the artifacts directory, resolved when it is used, and what is there.

A link that stays inside the root counts as its target (ADR-0029 resolves paths); one that leads outside doesn't. Each
path component is opened by descriptor.
"""

import errno
import os
import stat
from typing import Final, NamedTuple

from runward.config.path_rule import names_in
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REFUSED, ROOT, held, open_below
from runward.handlers.model.files import FileFact

MAXIMUM_LINKS: Final = 40
"""Links that are followed for one path, as the kernel does."""

MAXIMUM_STEPS: Final = 512
"""The maximum number of names that are examined for one path with links: a run can build any maze."""

NOWHERE: Final = ABSENT | {errno.ENAMETOOLONG}
"""Errors of a declared artifacts directory that doesn't exist, or can't because its name is too long."""

LATEST_NS: Final = (1 << 63) - 1
"""The farthest time from 1970 that a column of the store can represent."""

NOTHING_THERE: Final = FileFact("absent")

_OUTSIDE: Final = FileFact("outside")

_DENIED: Final = FileFact("denied")

_NOT_REGULAR: Final = FileFact("not_regular")


def open_artifacts(root: str, within: str) -> int | None:
    """A descriptor of the directory `root` as a starting point; None if there is no such directory.

    Raises `OSError` if the machine is at fault: then nothing is known.
    """
    run = open_run(within) if within else None
    if run is None and within:
        return None
    try:
        return _open_root(root, within, run)
    except OSError as error:
        if error.errno in NOWHERE or error.errno == LINK or error.errno in REFUSED:
            return None
        raise


def open_run(path: str) -> int | None:
    """The run's own directory; None if it doesn't exist or is a link.

    Raises `OSError` if it can't be read: then nothing is known, and nothing is missing.
    """
    try:
        return os.open(path, DIRECTORY)
    except OSError as error:
        if error.errno not in ABSENT and error.errno != LINK:
            raise
    os.stat(os.path.dirname(path))  # an unavailable root doesn't mean that its runs were removed
    return None


def _open_root(root: str, within: str, run: int | None) -> int:
    if run is None:
        return os.open(root, ROOT)
    with held(run):
        return open_below(run, root[len(within) + 1 :].split("/"))


def fact_at(root: int, path: str) -> FileFact:
    """What is at `path`. Raises `OSError` if the machine, not the path, is at fault."""
    parts = names_in(path)
    try:
        if len(parts) == 1:
            return _judge(root, parts[0], root)
        descriptor = open_below(root, parts[:-1])
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return _through_links(root, parts)
        return refusal(error)
    try:
        return _judge(descriptor, parts[-1], root, parts)
    except OSError as error:
        return refusal(error)
    finally:
        os.close(descriptor)


def _judge(directory: int, name: str, root: int, parts: list[str] | None = None) -> FileFact:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return NOTHING_THERE
    if stat.S_ISLNK(status.st_mode):
        return _through_links(root, parts or [name])
    return _of(status)


def _of(status: os.stat_result) -> FileFact:
    if not stat.S_ISREG(status.st_mode):
        return _NOT_REGULAR
    if status.st_size == 0:
        return FileFact("empty", 0, modified_ns(status))
    return FileFact("file", status.st_size, modified_ns(status))


def modified_ns(status: os.stat_result) -> int:
    """When a file was modified, within the range that the store can hold: some file systems accept any time."""
    return max(-LATEST_NS, min(LATEST_NS, status.st_mtime_ns))


def refusal(error: OSError) -> FileFact:
    """What an error on the way to a file says about the file. Raises the error if the machine causes it."""
    if error.errno in NOWHERE:
        return NOTHING_THERE
    if error.errno in REFUSED:
        return _DENIED
    if error.errno == errno.ELOOP:
        return _NOT_REGULAR
    raise error


class Resolved(NamedTuple):
    """Where a path ends: its name in a directory, whose descriptor the caller must close, and what is there."""

    directory: int
    name: str
    status: os.stat_result


def _through_links(root: int, parts: list[str]) -> FileFact:
    """The slow way, for a path with a link in it."""
    try:
        target = resolve(root, parts)
    except OSError as error:
        return refusal(error)
    if isinstance(target, FileFact):
        return target
    os.close(target.directory)
    return _of(target.status)


def resolve(root: int, parts: list[str]) -> Resolved | FileFact:
    """Where `parts` lead, resolved by hand, following links only while they stay below `root`; else why not.

    However deep it goes, only one descriptor is open, so the way to a parent is walked again. Raises `OSError` for what isn't
    there, or can't be read.
    """
    way: list[str] = []
    here, climbed = os.dup(root), False
    todo = list(reversed(parts))
    links = steps = 0
    try:
        while todo:
            part = todo.pop()
            steps += 1
            if part in ("", "."):
                continue
            if part == "..":
                if not way:
                    return _OUTSIDE
                way.pop()
                climbed = True
                continue
            if climbed:
                here, climbed = _exchanged(here, _descended(root, way)), False
                steps += len(way)
            if links > MAXIMUM_LINKS or steps > MAXIMUM_STEPS:
                return _NOT_REGULAR
            # Each link is read here instead of being followed by the kernel, which would follow it out of the root.
            status = os.stat(part, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                target = os.readlink(part, dir_fd=here)
                if target.startswith("/"):
                    inside = _below(root, target)
                    if inside is None:
                        return _OUTSIDE
                    way, climbed, target = [], True, inside
                todo.extend(reversed(target.split("/")))
            elif todo:
                way.append(part)
                # DIRECTORY refuses a link that took its place since the `stat`.
                here = _exchanged(here, os.open(part, DIRECTORY, dir_fd=here))
            else:
                return Resolved(os.dup(here), part, status)
        return _NOT_REGULAR
    finally:
        os.close(here)  # another one than at the beginning


def _descended(root: int, way: list[str]) -> int:
    return open_below(root, way) if way else os.dup(root)


def _exchanged(held: int, other: int) -> int:
    os.close(held)
    return other


def _below(root: int, target: str) -> str | None:
    """An absolute link's path below `root` ("" for the root itself), or None if it leads elsewhere."""
    # Its real name now: the configured one may lead through links, and the root may have been renamed.
    place = os.readlink(f"/proc/self/fd/{root}")
    return target[len(place) + 1 :] if f"{target}/".startswith(f"{place}/") else None
