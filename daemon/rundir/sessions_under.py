"""Finding the sessions under the path that `runward inspect` gets: a file, a session's directory, or any parent.

A directory is walked in order and within bounds. Links in it are not followed, names that begin with a dot are skipped,
and everything in a session's own directory belongs to that session.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from runward.daemon.rundir.opening import ABSENT
from runward.daemon.rundir.recognising import (
    log_by_its_place,
    recognise_directory,
    recognise_log,
)
from runward.daemon.rundir.tailing import NotRegular
from runward.daemon.rundir.unpacking import CannotUnpack
from runward.handlers.layouts.places import LEVELS, LOG, PACKED, unpacked_name
from runward.handlers.layouts.registry import DirectoryLayout, Layouts, LogLayout

MOST_ENTRIES: Final = 1_000_000
"""Entries of directories that are looked at in all."""

_LOG_NAMES: Final = (LOG, LOG + PACKED)


class Place(NamedTuple):
    """Where a session's files are: its log, or its directory. A layout given as text is our own, `native`."""

    layout: LogLayout | DirectoryLayout | str
    path: str


class Obstacle(NamedTuple):
    """Why a path could not be searched; `message` is the end of a sentence that starts with the path."""

    path: str
    message: str


class CannotList(Exception):
    """The named path can't be listed or read; the message says why."""


def sessions_under(path: str, layouts: Layouts) -> Iterator[Place | Obstacle]:
    """The sessions at or under `path`, in the order of their paths.

    A file that is not a log means the directory that it is in, if that is a session's. Raises `FileNotFoundError`
    and `CannotList`.
    """
    place = os.path.realpath(path)
    if not os.path.lexists(place):
        raise FileNotFoundError(path)
    if os.path.isdir(place):
        yield from _Walk(layouts).below(place)
        return
    found = _log(place, layouts, is_named=True)
    if found is None:
        directory = os.path.dirname(place)
        layout = recognise_directory(directory, _list(directory).names, layouts)
        found = Place(layout, directory) if layout is not None else None
    if found is not None:
        yield found


class _Listed(NamedTuple):
    names: list[str]
    directories: list[str]
    logs: list[str]


class _Walk:
    """A walk through directories, with what it may still visit."""

    def __init__(self, layouts: Layouts) -> None:
        self._layouts = layouts
        self._entries = MOST_ENTRIES
        self._is_over = False

    def below(self, directory: str) -> Iterator[Place | Obstacle]:
        """The sessions at or under a directory. Raises `CannotList` for this one only."""
        yield from self._look(directory, _list(directory), LEVELS)

    def _look(self, directory: str, listed: _Listed, levels: int) -> Iterator[Place | Obstacle]:
        layout = recognise_directory(directory, listed.names, self._layouts)
        if layout is not None:
            yield Place(layout, directory)
            return
        self._entries -= len(listed.names)
        if self._entries < 0:
            self._is_over = True
            yield Obstacle(directory, "is too large: name a directory further down")
            return
        owned = {unpacked_name(name).removesuffix(LOG) for name in listed.logs}
        for name in sorted((*listed.logs, *listed.directories)):
            if name in listed.logs:
                found = _log(f"{directory}/{name}", self._layouts, is_named=False)
                if found is not None:
                    yield found
            elif levels and name not in owned and not self._is_over:
                yield from self._descend(f"{directory}/{name}", levels - 1)

    def _descend(self, directory: str, levels: int) -> Iterator[Place | Obstacle]:
        try:
            listed = _list(directory)
        except CannotList as error:
            yield Obstacle(directory, str(error))
        else:
            yield from self._look(directory, listed, levels)


def _list(directory: str) -> _Listed:
    names: list[str] = []
    directories: list[str] = []
    logs: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                names.append(entry.name)
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                elif entry.name.endswith(_LOG_NAMES) and entry.is_file(follow_symlinks=False):
                    logs.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    break
    except OSError as error:
        raise CannotList(f"can't be listed: {error.strerror}") from error
    return _Listed(names, directories, logs)


def _log(path: str, layouts: Layouts, *, is_named: bool) -> Place | Obstacle | None:
    """The session whose log is at `path`. Both a named and a found file may be something else.

    Raises `CannotList` for one that is named and can't be read, if nothing else shows what it is.
    """
    try:
        layout = recognise_log(path, layouts)
    except (OSError, NotRegular, CannotUnpack) as error:
        if isinstance(error, OSError) and error.errno in ABSENT:
            return None  # gone since the listing
        layout = log_by_its_place(path, layouts)
        if layout is None and is_named and isinstance(error, OSError):
            raise CannotList(_why(error)) from error
        if layout is None and not (is_named and isinstance(error, NotRegular)):
            return Obstacle(path, _why(error))
    return Place(layout, path) if layout is not None else None


def _why(error: Exception) -> str:
    return f"can't be read: {error.strerror}" if isinstance(error, OSError) else str(error)
