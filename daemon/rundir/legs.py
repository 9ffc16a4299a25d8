"""What is in the directories of a flow's legs: whether one of them worked before the plan was there.

Only names and times are checked, never contents, and at most a fixed number of entries. A leg whose work isn't found
counts as clean. Links are not followed.
"""

import errno
import os
from collections import deque
from collections.abc import Iterator
from typing import Final

from runward.daemon.rundir.opening import ABSENT, LINK, LISTED, REFUSED, held, open_below, unreadable
from runward.daemon.rundir.resolving import open_artifacts
from runward.handlers.contracts.verify import boundary
from runward.handlers.model.contracts import EarlyLegs, LegsBefore
from runward.handlers.model.files import Unreadable

MAXIMUM_ENTRIES: Final = 2048
"""Entries of directories that are looked at for one flow."""

LEAST_ENTRIES: Final = 32
"""Entries that are looked at for each leg, however many there are."""

MAXIMUM_DEPTH: Final = 16
"""How many levels a walk goes down."""


def early_legs(question: LegsBefore) -> EarlyLegs | Unreadable:
    """The legs whose directories contain something older than the plan, each with one such thing."""
    try:
        root = open_artifacts(question.root, question.within)
    except OSError as error:
        return unreadable(error)
    if root is None:
        return EarlyLegs(())
    most = max(LEAST_ENTRIES, MAXIMUM_ENTRIES // len(question.paths))
    early = []
    try:
        for path in question.paths:
            for name, status in _things(root, path, most):
                # No program can set a change time. But a copy of a run is made in any order: it keeps only the modification times.
                if status.st_ctime_ns < question.changed_ns and status.st_mtime_ns <= question.modified_ns:
                    early.append((path, _shown(name)))
                    break
    except OSError as error:
        return unreadable(error)
    finally:
        os.close(root)
    return EarlyLegs(tuple(early))


def filled_without(plan: str, run: str, artifacts: str) -> tuple[str, ...]:
    """The directories below `artifacts` that hold something, if the directory `run` has no file `plan` even then.

    None of them if that can't be determined.
    """
    filled: tuple[str, ...] = ()
    try:
        filled = _filled(artifacts, boundary(artifacts, run))
        # The plan is looked for last: if it came during the walk, nobody is blamed for what the walk found.
        os.stat(f"{run}/{plan}", follow_symlinks=False)
    except FileNotFoundError:
        return filled
    except OSError:
        return ()
    return ()


def _filled(artifacts: str, within: str) -> tuple[str, ...]:
    root = open_artifacts(artifacts, within)
    if root is None:
        return ()
    with held(root):
        names = {name.rpartition("/")[0] for name, _ in _things(root, "", MAXIMUM_ENTRIES)}
    return tuple(sorted(name for name in names if name and _shown(name) == name))  # a leg's name is text


def _things(top: int, within: str, most: int) -> Iterator[tuple[str, os.stat_result]]:
    """All non-directories below the directory `within` of `top`, the nearest first, by their paths from `top`."""
    waiting = deque([(within, 0)])
    while waiting:
        way, depth = waiting.popleft()
        directory = _listed(top, way)
        if directory is None:
            continue
        with held(directory), os.scandir(directory) as entries:
            for entry in entries:
                if most <= 0:
                    return
                most -= 1
                name = f"{way}/{entry.name}" if way else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    status = _status(entry)
                    if status is not None:
                        yield name, status
                elif depth < MAXIMUM_DEPTH:
                    waiting.append((name, depth + 1))


def _listed(top: int, way: str) -> int | None:
    """A descriptor to list the directory with; None if there is none, or it can't be listed."""
    try:
        with held(open_below(top, way.split("/") if way else ["."])) as place:
            return os.open(".", LISTED, dir_fd=place)
    except OSError as error:
        if error.errno in ABSENT | REFUSED or error.errno in (LINK, errno.ENAMETOOLONG):
            return None
        raise


def _status(entry: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # gone since the listing began


def _shown(name: str) -> str:
    """A name as text, whatever bytes it has."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
