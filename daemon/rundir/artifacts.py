"""Facts about expected artifacts: what is at a contract's paths, without leaving their root.

A link that stays inside the root counts as its target (ADR-0029 resolves paths); one that leads outside doesn't. Each
path component is opened by descriptor.
"""

import errno
import os
import stat
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.path_rule import names_in
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REFUSED, ROOT, open_below, unreadable
from runward.handlers.model.contracts import FileFact, RootFacts, RuledPath
from runward.handlers.model.unreadable import Unreadable

MAXIMUM_LINKS: Final = 40
"""Links that are followed for one path, as the kernel does."""

MAXIMUM_STEPS: Final = 512
"""The maximum number of names that are examined for one path with links: a run can build any maze."""

NOWHERE: Final = ABSENT | {errno.ENAMETOOLONG}
"""Errors of a declared artifacts directory that doesn't exist, or can't because its name is too long."""

LATEST_NS: Final = (1 << 63) - 1
"""The farthest time from 1970 that a column of the store can represent."""

_ABSENT: Final = FileFact("absent")
_OUTSIDE: Final = FileFact("outside")
_DENIED: Final = FileFact("denied")
_NOT_REGULAR: Final = FileFact("not_regular")


def artifact_facts(root: str, within: str, paths: Sequence[str | RuledPath]) -> RootFacts | Unreadable:
    """A fact for each of `paths`, relative to the directory `root`.

    If `within` is given, `root` is below it and no component after `within` may be a link.
    """
    try:
        descriptor = open_artifacts(root, within)
    except OSError as error:
        return unreadable(error)
    try:
        if descriptor is None:
            absent = (_ABSENT,) * len(paths)
            near = _with_near_misses(None, root, within, paths, absent)
            return RootFacts(False, near) if near != absent else RootFacts(False)
        return RootFacts(True, _with_near_misses(descriptor, root, within, paths, _facts(descriptor, paths)))
    except OSError as error:
        return unreadable(error)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _with_near_misses(
    descriptor: int | None,
    root: str,
    within: str,
    paths: Sequence[str | RuledPath],
    facts: tuple[FileFact, ...],
) -> tuple[FileFact, ...]:
    """The facts; absent artifacts with the file that is nearly them, if there is one. Without a `descriptor` there is no root."""
    named = [path if isinstance(path, str) else path.file or path.rules.glob for path in paths]
    absent = [
        name for name, fact in zip(named, facts, strict=True) if name is not None and fact.state == "absent"
    ]
    if not absent:
        return facts
    from runward.daemon.rundir.near_misses import near_misses  # only what is missing something pays for this

    globs = frozenset(path.path for path in paths if isinstance(path, RuledPath) and path.rules.glob)
    expected = frozenset(name for name in named if name is not None) - globs
    parent = os.path.dirname(root)
    above = _open_run(within) if parent == within else open_artifacts(parent, within) if within else None
    try:
        near = near_misses(descriptor, above, absent, expected, globs)
    finally:
        if above is not None:
            os.close(above)
    return tuple(
        fact._replace(near=near[name]) if name in near and fact.state == "absent" else fact
        for name, fact in zip(named, facts, strict=True)
    )


def _facts(root: int, paths: Sequence[str | RuledPath]) -> tuple[FileFact, ...]:
    ruled = [path for path in paths if isinstance(path, RuledPath)]
    if not ruled:
        return tuple(fact_at(root, path) for path in paths if isinstance(path, str))
    from runward.daemon.rundir.ruled_artifacts import RuledLook  # only contracts with rules pay for this

    found = iter(RuledLook(root).facts(ruled))
    return tuple(fact_at(root, path) if isinstance(path, str) else next(found) for path in paths)


def open_artifacts(root: str, within: str) -> int | None:
    """A descriptor of the directory `root` as a starting point; None if there is no such directory.

    Raises `OSError` if the machine is at fault: then nothing is known.
    """
    run = _open_run(within) if within else None
    if run is None and within:
        return None
    try:
        return _open_root(root, within, run)
    except OSError as error:
        if error.errno in NOWHERE or error.errno == LINK or error.errno in REFUSED:
            return None
        raise


def _open_run(path: str) -> int | None:
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
    try:
        return open_below(run, root[len(within) + 1 :].split("/"))
    finally:
        os.close(run)


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
        return _ABSENT
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
        return _ABSENT
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
        found = resolve(root, parts)
    except OSError as error:
        return refusal(error)
    if isinstance(found, FileFact):
        return found
    os.close(found.directory)
    return _of(found.status)


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
                here = _exchanged(here, os.open(part, DIRECTORY, dir_fd=here))
            else:
                return Resolved(os.dup(here), part, status)
        return _NOT_REGULAR
    finally:
        os.close(here)


def _descended(root: int, way: list[str]) -> int:
    return open_below(root, way) if way else os.dup(root)


def _exchanged(held: int, other: int) -> int:
    os.close(held)
    return other


def _below(root: int, target: str) -> str | None:
    """An absolute link's path below `root` ("" for the root itself), or None if it leads elsewhere."""
    place = os.readlink(f"/proc/self/fd/{root}")
    return target[len(place) + 1 :] if f"{target}/".startswith(f"{place}/") else None
