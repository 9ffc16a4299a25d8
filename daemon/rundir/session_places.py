"""Where foreign sessions are under a root: all places with their signatures, and a single one's."""

import os
from typing import Final

from runward.daemon.ports.files import Gone, Listing
from runward.daemon.rundir.looking import signature
from runward.daemon.rundir.mixed_places import is_inside_session, recognise_place, shape_inside
from runward.daemon.rundir.opening import (
    ABSENT,
    DIRECTORY,
    LINK,
    ROOT,
    open_place,
    opened,
    opened_below,
    unreadable,
)
from runward.handlers.layouts import native
from runward.handlers.layouts.places import (
    LEVELS,
    LOG,
    PACKED,
    DirectoryShape,
    LogShape,
    MixedShape,
    Shape,
    directory_shape,
    is_storable,
    unpacked_name,
)
from runward.handlers.layouts.registry import DirectoryLayout
from runward.handlers.model.sessions import Signature
from runward.handlers.model.unreadable import Unreadable

MOST_ENTRIES: Final = 1_000_000
"""Entries of directories that are looked at in all."""

_ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LISTED: Final = _ROOT | os.O_NOFOLLOW


def list_places(root: str, shape: Shape) -> Listing | Unreadable | Gone:
    """All places under a root. No link below it is followed, and names that begin with a dot are ignored."""
    listing = _Listing(shape)
    try:
        with opened(root, _ROOT) as top:
            listing.look(top, "", LEVELS)
    except OSError as error:
        return Gone() if error.errno in ABSENT else unreadable(error)
    return Listing(listing.places, tuple(listing.unusable), tuple(listing.unlisted), tuple(listing.native))


def place_signature(root: str, place: str, shape: Shape) -> Signature | None:
    """The signature of a place, as `list_places` gives it; None if there is none or it can't be reached."""
    *parents, name = place.split("/")
    try:
        if isinstance(shape, MixedShape):
            return _signature_in_mixed(root, parents, name, shape)
        within = open_place(root, parents)
        try:
            if isinstance(shape, DirectoryShape):
                return signature_in(within, name, shape)
            found = log_at(within, name)
            return signature(found[1]) if found is not None else None
        finally:
            os.close(within)
    except OSError:
        return None


def _signature_in_mixed(root: str, parents: list[str], name: str, shape: MixedShape) -> Signature | None:
    with opened(root, ROOT) as top:
        if is_inside_session(top, parents, shape):
            return None
        with opened_below(top, parents) as within:
            if name.endswith(LOG):
                found = log_at(within, name)
                return signature(found[1]) if found is not None else None
            with opened(name, DIRECTORY, within) as directory:
                return directory_signature(directory, shape_inside(directory, shape))[0]


def log_at(within: int, name: str) -> tuple[str, os.stat_result] | None:
    """The file that has the log `name` of an open directory, the plain one before the packed one, and its status.

    None if neither exists. Raises `OSError`.
    """
    for each in (name, name + PACKED):
        try:
            return each, os.stat(each, dir_fd=within, follow_symlinks=False)
        except FileNotFoundError:
            continue
    return None


def signature_in(within: int, name: str, shape: DirectoryShape) -> Signature:
    """The signature of a session's directory: its inode, the sizes of the files that count, and the newest time.

    A directory's own time says nothing about what grows in it. Raises `OSError`.
    """
    with opened(name, DIRECTORY, within) as directory:
        return directory_signature(directory, shape)[0]


def directory_signature(directory: int, shape: DirectoryShape) -> tuple[Signature, dict[str, Signature]]:
    """Like `signature_in`, for an open directory, and the signatures that it consists of."""
    inode, size, changed = signature(os.fstat(directory))
    found: dict[str, Signature] = {}
    for path in shape.beneath():
        try:
            each = found[path] = signature(os.stat(path, dir_fd=directory, follow_symlinks=False))
        except OSError:
            continue
        size += each[1]
        changed = max(changed, each[2])
    return (inode, size, changed), found


def _logs_of(shape: Shape) -> LogShape:
    """Which logs are looked for in directories of this shape."""
    if isinstance(shape, MixedShape):
        return shape.logs
    return shape if isinstance(shape, LogShape) else LogShape()


class _Listing:
    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._logs = _logs_of(shape)
        self._telling = frozenset(shape.telling_names()) if isinstance(shape, MixedShape) else frozenset()
        self._left = MOST_ENTRIES
        self.places: dict[str, Signature] = {}
        self.unusable: list[str] = []
        self.unlisted: list[str] = []
        self.native: list[str] = []

    def look(self, within: int, prefix: str, levels: int) -> None:
        """What is in an open directory. Raises `OSError` if it can't be listed."""
        directories: list[str] = []
        logs: dict[str, os.stat_result] = {}
        may_tell = False
        with os.scandir(within) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    self.unlisted.append(prefix.rstrip("/") or ".")
                    break
                name = entry.name
                may_tell = may_tell or name in self._telling
                if entry.is_dir(follow_symlinks=False):
                    directories.append(name)
                elif self._is_log(entry) and (name.endswith(LOG) or unpacked_name(name) not in logs):
                    try:
                        logs[unpacked_name(name)] = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone since the listing began
        if isinstance(self._shape, DirectoryShape):
            self._sessions(within, directories, self._shape)
            return
        if may_tell and prefix and self._is_session(within, prefix.rstrip("/")):
            return
        for name, status in logs.items():
            self._add(prefix + name, signature(status))
        for name in directories:
            if levels and self._logs.is_entered(name) and name + LOG not in logs and self._left >= 0:
                self._descend(within, prefix + name, name, levels - 1)

    def _is_log(self, entry: os.DirEntry[str]) -> bool:
        if isinstance(self._shape, DirectoryShape):
            return False
        return self._logs.is_log(entry.name) and entry.is_file(follow_symlinks=False)

    def _is_session(self, within: int, place: str) -> bool:
        """Whether an open directory with a file that indicates sessions belongs to a session; it is listed in any case.

        One that doesn't may become a session's without a change of its own.
        """
        shape = self._shape
        if not isinstance(shape, MixedShape) or place.endswith(LOG):
            return False
        layout = recognise_place(within, shape)
        told_by = directory_shape(layout) if isinstance(layout, DirectoryLayout) else shape.directories()
        self._add(place, directory_signature(within, told_by)[0])
        if layout == native.LAYOUT and is_storable(place):
            self.native.append(place)
        return layout is not None

    def _descend(self, within: int, path: str, name: str, levels: int) -> None:
        try:
            with opened(name, _LISTED, within) as directory:
                self.look(directory, path + "/", levels)
        except OSError as error:
            if error.errno not in ABSENT and error.errno != LINK:
                self.unlisted.append(path)

    def _sessions(self, within: int, directories: list[str], shape: DirectoryShape) -> None:
        for name in directories:
            if name.startswith("."):
                continue
            try:
                self._add(name, signature_in(within, name, shape))
            except OSError as error:
                if error.errno not in ABSENT and error.errno != LINK:
                    self.unlisted.append(name)

    def _add(self, place: str, found: Signature) -> None:
        if is_storable(place):
            self.places[place] = found
        else:
            self.unusable.append(place.encode("utf-8", "backslashreplace").decode())
