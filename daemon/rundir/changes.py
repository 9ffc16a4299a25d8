"""When anything in a run directory or a log changed: for the launcher, which ends a silent run, and for people who ask.

The content isn't ours: no link is followed, and each look is bounded. The launcher imports this, so it imports little.
"""

from __future__ import annotations

import os
import stat
import time

from runward.handlers.bundle.parts import OURS, is_part_or_temporary

_MOST = 10_000
"""Entries that one look checks; of a larger directory only the first ones count."""
_DEEPEST = 32
_ALSO_OF_THE_RUN = "events.jsonl"
"""Runward writes this file, and a run may append to it, too."""
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Changes:
    """The changes in an open directory, from now on."""

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._left = 0
        self._newest = 0
        self._sum = self._look()

    def newest(self) -> float | None:
        """When the newest change since the last call happened (Unix seconds); None if nothing changed."""
        known, before = self._sum, self._newest
        self._sum = self._look()
        if self._sum == known:
            return None
        # Something was removed from the run directory itself, whose own time does not count. Nobody knows when.
        return self._newest / 1e9 if self._newest > before else time.time()

    def _look(self) -> int:
        self._left, self._newest = _MOST, 0
        try:
            return self._within(os.open(".", _FLAGS, dir_fd=self._directory), _DEEPEST, is_run=True)
        except OSError:
            return 0  # the directory can't be read, which alone is not a change

    def _within(self, descriptor: int, depth: int, *, is_run: bool = False) -> int:
        """The sum over everything in a directory. The descriptor is closed.

        Of the run directory itself, what Runward writes does not count, nor does the directory's own time, which changes
        with it: a replay that grows would keep a silent run alive.
        """
        total = 0
        try:
            for name in os.listdir(descriptor):
                if self._left <= 0:
                    break
                self._left -= 1
                if is_run and _is_ours(name):
                    continue
                try:
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    # A sum, because names come in any order.
                    total += self._note(status)
                    if stat.S_ISDIR(status.st_mode) and depth > 0:
                        total += self._within(os.open(name, _FLAGS, dir_fd=descriptor), depth - 1)
                except OSError:
                    continue  # removed in the meantime, or not readable for us
        finally:
            os.close(descriptor)
        return total

    def _note(self, status: os.stat_result) -> int:
        self._newest = max(self._newest, status.st_ctime_ns)
        return hash((status.st_ino, status.st_size, status.st_ctime_ns))


def _is_ours(name: str) -> bool:
    return name != _ALSO_OF_THE_RUN and (name in OURS or is_part_or_temporary(name))


MOST_ENTRIES = 10_000
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
