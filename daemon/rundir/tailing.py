"""Reading the lines of a growing file from where the last reading ended, for anyone who follows it.

The file may be an agent's: it is opened without following links or blocking, only regular files are read, and no line
is kept longer than `MAXIMUM_LINE`. Nothing here writes.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from runward.daemon.rundir.opening import DIRECTORY, REGULAR


def data_after(descriptor: int, offset: int) -> int:
    """The position of the next written bytes at or after `offset`; the file's end if there are none."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return max(offset, os.fstat(descriptor).st_size)


def is_empty(piece: bytes) -> bool:
    """Whether bytes that were read may be those of a hole."""
    return not piece.strip(b"\0")


MAXIMUM_LINE: Final = 1 << 20
"""Bytes of a line that are kept; a longer one is cut and marked as cut."""

_CHUNK: Final = 1 << 16


class NotRegular(Exception):
    """What is there is not a regular file."""


class Line(NamedTuple):
    """A line without its newline. `number` counts from 1 in its file."""

    number: int
    content: bytes
    is_cut: bool = False


class Tail:
    """The lines of one file. `reopen` gives a descriptor of what is at its path now, or raises `OSError`."""

    def __init__(self, reopen: Callable[[], int]) -> None:
        self._reopen = reopen
        self._descriptor = reopen()
        self.identity = _identity(self._descriptor)
        """Device and inode of the file that is read."""
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._number = 0
        self._held = b""
        self._is_cut = False

    def lines(self) -> Iterator[Line]:
        """The whole lines that were added since the last call. Raises `OSError`."""
        if os.fstat(self._descriptor).st_size < self._offset:
            self._begin()  # it was truncated: its content is new
        while piece := os.pread(self._descriptor, _CHUNK, self._offset):
            self._offset += len(piece)
            *whole, rest = piece.split(b"\n")
            for each in whole:
                self._hold(each)
                yield self._line()
            self._hold(rest)
            if is_empty(piece):
                self._pass_over_hole()

    def unfinished(self) -> Line | None:
        """The last line, if nobody has ended it yet."""
        return self._line() if self._held or self._is_cut else None

    def moved_on(self) -> bool:
        """Whether another file is at the path now; then that one is read from its beginning.

        Read the rest of the old one first.
        """
        try:
            following = self._reopen()
        except FileNotFoundError:
            return False
        identity = _identity(following)
        if identity == self.identity:
            os.close(following)
            return False
        os.close(self._descriptor)
        self._descriptor, self.identity = following, identity
        self._begin()
        return True

    def close(self) -> None:
        """Read no more."""
        os.close(self._descriptor)

    def _pass_over_hole(self) -> None:
        following = data_after(self._descriptor, self._offset)
        self._hold(bytes(min(following - self._offset, MAXIMUM_LINE + 1)))
        self._offset = following

    def _hold(self, piece: bytes) -> None:
        room = MAXIMUM_LINE - len(self._held)
        self._is_cut = self._is_cut or len(piece) > room
        self._held += piece[:room]

    def _line(self) -> Line:
        self._number += 1
        line = Line(self._number, self._held, self._is_cut)
        self._held, self._is_cut = b"", False
        return line


def open_in_run(directory: str, name: str) -> int:
    """A descriptor of the regular file `name` in a run directory. Raises `OSError` and `NotRegular`."""
    within = os.open(directory, DIRECTORY)
    try:
        return open_regular(within, name)
    except NotRegular:
        raise NotRegular(f"{directory}/{name} is not a regular file") from None
    finally:
        os.close(within)


def open_regular(within: int, name: str) -> int:
    """A descriptor of the regular file `name` in an open directory. Raises `OSError` and `NotRegular`."""
    descriptor = os.open(name, REGULAR, dir_fd=within)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(f"{name} is not a regular file")
    return descriptor


def ends_with(directory: str, name: str, content: bytes) -> bool:
    """Whether `content` is near the end of a run's file. A file that can't be read ends with nothing."""
    try:
        descriptor = open_in_run(directory, name)
    except (OSError, NotRegular):
        return False
    try:
        length = len(content) + MAXIMUM_LINE
        return content in os.pread(descriptor, length, max(0, os.fstat(descriptor).st_size - length))
    finally:
        os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


_LARGE_CHUNK: Final = 1 << 20


def whole_lines(descriptor: int, size: int, longest: int) -> Iterator[tuple[int, bytes]]:
    """The lines in the first `size` bytes with their places, each with its newline; the last one may have none.

    A line of more than `longest` bytes may be left out. Raises `OSError`.
    """
    begin, rest, position = 0, b"", 0
    while position < size:
        piece = os.pread(descriptor, min(_LARGE_CHUNK, size - position), position)
        if not piece:
            return
        position += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield begin, line + b"\n"
            begin += len(line) + 1
        if len(rest) > longest:  # what follows up to its end is not a line of ours either
            begin, rest = position, b""
    if rest:
        yield begin, rest + b"\n"
