"""Directories and the names that change in them, from inotify. No link below a watched directory is followed.

A library would follow them. Then a few dozen links between directories make millions of paths, and it walks them all.
"""

import ctypes
import errno
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

_ATTRIB, _MODIFY, _CLOSE_WRITE = 0x4, 0x2, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x4000, 0x8000, 0x40000000
_ONLY_DIRECTORIES, _NO_LINK, _NO_UNLINKED = 0x01000000, 0x02000000, 0x04000000
_WANTED: Final = (
    _ATTRIB | _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
    | _ONLY_DIRECTORIES | _NO_UNLINKED
)  # fmt: skip

_HEAD: Final = struct.Struct("iIII")
_PIECE: Final = 1 << 16
_MOST_PIECES: Final = 64
"""Pieces that are read before their content is passed on."""

_SLICE_MS: Final = 500
"""How often a waiting thread checks whether to stop."""

_NOT_TO_BE_WATCHED: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG}
)

_libc: Final = ctypes.CDLL(None, use_errno=True)


class Overflow(Exception):
    """The kernel's queue was full: some changes are lost."""


@dataclass(slots=True)
class _Node:
    """A watched directory: its name in the one `above`, by that one's watch, or its whole path if it is a top one."""

    name: bytes
    above: int | None
    deep: bool
    below: dict[bytes, int] = field(default_factory=dict)


class Directories:
    """Watches directories, `deep` ones to the bottom, with at most this many watches.

    Raises `OSError`: ENOSPC if there are no more watches, EMFILE if there are no more inotify instances.
    """

    def __init__(
        self,
        deep: Sequence[str],
        flat: Sequence[str] = (),
        most: int | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._most = most
        self._beat = beat
        self._nodes: dict[int, _Node] = {}
        self._first: set[int] = set()
        self._moving: dict[int, int] = {}
        """Directories that were moved, by the number that both events of a move have, until their new place is
        known."""
        self.lacks = False
        """Whether there are directories that got no watch, because there are no more."""
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        try:
            for path in deep:
                self._add(os.fsencode(path), os.fsencode(path), None, deep=True)
            for path in flat:
                self._add(os.fsencode(path), os.fsencode(path), None, deep=False)
            if self.lacks:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)

    def __len__(self) -> int:
        return len(self._nodes)

    def wait(self, patience: float, step: float, most: float, stop: threading.Event) -> set[str]:
        """The paths that changed, once nothing more changes for `step` seconds or `most` passed; else none in time.

        Raises `Overflow`.
        """
        until = time.monotonic() + patience
        changed: set[str] = set()
        while not changed and not stop.is_set():
            left = until - time.monotonic()
            if left <= 0:
                break
            if not self._poll.poll(min(left * 1000, _SLICE_MS)):
                continue
            self._read(changed)
            last = time.monotonic() + most
            # A burst is gathered, so that a run directory that is being filled is looked at once. The bound
            # keeps a writer that never pauses from delaying the rest.
            while time.monotonic() < last and not stop.wait(step) and self._read(changed):
                pass
        self._let_go_of_moved()
        return changed

    def _read(self, changed: set[str]) -> bool:
        """Read the waiting events; returns whether there were any."""
        reported: set[tuple[int, bytes]] = set()
        # Bounded, so that a flood of events still comes out as changes and not only fills memory.
        for number in range(_MOST_PIECES):
            try:
                piece = os.read(self._descriptor, _PIECE)
            except BlockingIOError:
                return number > 0
            self._take(piece, changed, reported)
        return True

    def _take(self, piece: bytes, changed: set[str], reported: set[tuple[int, bytes]]) -> None:
        offset = 0
        while offset < len(piece):
            watch, mask, move, length = _HEAD.unpack_from(piece, offset)
            begin = offset + _HEAD.size
            offset = begin + length
            # The kernel dropped events. Nothing tells which, so the whole watch is set up anew and the roots
            # are scanned.
            if mask & _OVERFLOW:
                raise Overflow("the kernel's queue of notifications was full")
            node = self._nodes.get(watch)
            if node is None:
                continue
            if mask & _IGNORED:
                self._forget(watch)
                continue
            name = piece[begin:offset].rstrip(b"\0")
            is_directory = name and mask & _IS_DIRECTORY and node.deep
            # A file that is written to reports each write. One report is enough.
            if not is_directory and (watch, name) in reported:
                continue
            reported.add((watch, name))
            path = self._path(node)
            path = b"%s/%s" % (path, name) if name else path
            changed.add(os.fsdecode(path))
            if is_directory and mask & _MOVED_FROM and name in node.below:
                # A move is two events. Until the second one, it is unknown whether the directory left what is
                # watched.
                moved = self._moving[move] = node.below.pop(name)
                self._nodes[moved].name, self._nodes[moved].above = path, None
            elif is_directory and mask & _MOVED_TO and self._arrives(move, name, watch):
                continue  # with everything below it: a deep tree is not walked again
            elif is_directory and mask & (_CREATE | _MOVED_TO):
                self._add(path, name, watch, deep=True)

    def _arrives(self, move: int, name: bytes, above: int) -> bool:
        """Whether a watched directory was moved in here; if so, it gets its new name."""
        moved = self._moving.pop(move, None)
        node = self._nodes.get(moved) if moved is not None else None
        if moved is None or node is None or node.above is not None:
            return False
        # Only its name changes. inotify follows the directory itself, so everything below it stays watched.
        node.name, node.above = name, above
        self._nodes[above].below[name] = moved
        return True

    def _let_go_of_moved(self) -> None:
        """Those that left and did not arrive anywhere were moved out."""
        for watch in self._moving.values():
            if watch in self._nodes and self._nodes[watch].above is None:
                self._drop(watch)
        self._moving.clear()

    def _path(self, node: _Node) -> bytes:
        names = [node.name]
        while node.above is not None:
            node = self._nodes[node.above]
            names.append(node.name)
        return b"/".join(reversed(names))

    def _add(self, path: bytes, name: bytes, above: int | None, *, deep: bool) -> None:
        """Watch a directory and, if it is a deep one, those in it; but no more than may be watched."""
        waiting: list[tuple[bytes, bytes, int | None]] = [(path, name, above)]
        while waiting:
            self._beat()
            place, called, within = waiting.pop()
            if self._most is not None and len(self._nodes) >= self._most:
                self.lacks = True
                return
            watch = self._watch(place, is_first=within is None)
            # Links are not followed, but a mount can still make a directory contain itself. That walk would
            # never end.
            if watch is None or self._is_on_the_way(watch, within):
                continue
            # The watch is set before the directory is listed: what appears in between is then either listed
            # or reported.
            self._put(watch, _Node(called, within, deep))
            if within is None:
                self._first.add(watch)
            if not deep:
                continue
            try:
                with os.scandir(place) as entries:
                    waiting += [
                        (entry.path, entry.name, watch)
                        for entry in entries
                        if entry.is_dir(follow_symlinks=False)
                    ]
            except OSError:
                continue  # gone or forbidden: nothing to watch there

    def _is_on_the_way(self, watch: int, within: int | None) -> bool:
        """Whether a directory contains itself, or is a top one: a mount may lead back to its own parent."""
        known = self._nodes.get(watch)
        if watch in self._first:
            return True
        while known is not None and within is not None:
            if within == watch:
                return True
            within = self._nodes[within].above
        return False

    def _put(self, watch: int, node: _Node) -> None:
        known = self._nodes.get(watch)
        if known is not None:  # the same directory by another path, or moved meanwhile
            # inotify gives the same number for the same directory. What is known below it is still watched.
            node.below = known.below
            self._detach(watch, known)
        self._nodes[watch] = node
        if node.above is not None:
            self._nodes[node.above].below[node.name] = watch

    def _watch(self, path: bytes, *, is_first: bool) -> int | None:
        """A watch on a directory; None if none can be had. A top one may be reached by a link."""
        # The operator named the top directories, so they may be links. Below them an agent could point a link
        # anywhere.
        mask = _WANTED if is_first else _WANTED | _NO_LINK
        watch: int = _libc.inotify_add_watch(self._descriptor, path, mask)
        if watch >= 0:
            return watch
        error = ctypes.get_errno()
        if error == errno.ENOSPC:
            self.lacks = True
        # A directory that is gone or can't be read is normal: agents remove what they like.
        elif error not in _NOT_TO_BE_WATCHED:
            raise OSError(error, os.strerror(error), os.fsdecode(path))
        return None

    def _drop(self, watch: int) -> None:
        """Stop watching a directory that was moved away, and everything in it."""
        self._detach(watch, self._nodes[watch])
        waiting = [watch]
        while waiting:
            each = waiting.pop()
            node = self._nodes.pop(each, None)
            if node is not None:
                waiting += node.below.values()
                _libc.inotify_rm_watch(self._descriptor, each)

    def _forget(self, watch: int) -> None:
        """The kernel removed a watch, because its directory no longer exists."""
        self._first.discard(watch)
        self._drop(watch)

    def _detach(self, watch: int, node: _Node) -> None:
        above = self._nodes.get(node.above) if node.above is not None else None
        if above is not None and above.below.get(node.name) == watch:
            del above.below[node.name]


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
