"""Reading the whole lines of a log with the byte offset of each, from where the last reading ended.

`growing.py` reads what it needs of every log; this module is for the few lines that are kept. No line is cut. One over
`LONGEST_LINE` is skipped and reported, so no more than that is in memory at a time.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from runward.daemon.disk.sparse import data_after, is_empty
from runward.daemon.ports.files import Halted
from runward.daemon.rundir.unpacking import Unpacked
from runward.handlers.layouts.call_reader import LONGEST_LINE, PlacedLine
from runward.handlers.layouts.transcript_lines import is_object

_CHUNK: Final = 1 << 16
"""Bytes that are read at once: larger pieces take longer, because the kernel gives new memory for each."""
_BEFORE: Final = 64
"""Bytes before the place by which a file is recognised."""


class LinesRead(NamedTuple):
    """How far a log was read: its device and inode, the bytes (unpacked) and lines before here, and the hash of the last
    of these bytes. `unended`: the last line before here was given before its newline came.
    """

    device: int = 0
    inode: int = 0
    offset: int = 0
    lines: int = 0
    before: str = ""
    unended: bool = False


NO_LINES: Final = LinesRead()


class TooLong(NamedTuple):
    """A line that isn't read, with its length in bytes."""

    number: int
    start: int
    length: int


class PlacedLines:
    """The lines of an open log. `descriptor` is of a regular file, and stays the caller's.

    `is_another` says that this isn't the file that was read before: then its lines are given from the first one on.
    `read` is how far the lines were given, and `place` is the same in a form to store. Nothing is read from the byte
    `end` on. `go_on` gets the number of bytes of each piece that was read, and says whether to continue. Reading raises
    `OSError`, `Halted` if `go_on` says no, and `CannotUnpack` for a packed log.
    """

    def __init__(
        self,
        descriptor: int,
        read: LinesRead,
        *,
        is_packed: bool = False,
        end: int | None = None,
        go_on: Callable[[int], bool] = lambda read: True,
    ) -> None:
        self._go_on = go_on
        status = os.fstat(descriptor)
        self._end = end
        self._descriptor, self._is_packed = descriptor, is_packed
        self._last = b""
        self._unpacked: Unpacked | None = None
        self._at = 0
        fresh = LinesRead(status.st_dev, status.st_ino, before=_hash(b""))
        self.is_another = read != NO_LINES and not self._knows(read, fresh)
        self.read = fresh if read == NO_LINES or self.is_another else read
        if self.is_another:
            self._last = b""
        self._open(self.read.offset)

    def lines(self, most_bytes: int | None = None) -> Iterator[PlacedLine | TooLong]:
        """The lines that are there now; after `most_bytes` no further ones."""
        stop = None if most_bytes is None else self.read.offset + most_bytes
        held: list[bytes] = []
        size = 0
        while stop is None or self.read.offset < stop:
            piece = self._piece()
            if not piece:
                yield from self._unended(held, size)
                return
            first, newline, rest = piece.partition(b"\n")
            size += len(first)
            if size <= LONGEST_LINE:
                held.append(first)
            else:
                held.clear()
                if not newline and not self._is_packed and is_empty(piece):
                    size += self._hole()
            if not newline:
                continue
            yield from self._ended(b"".join(held), size)
            contents = rest.split(b"\n")
            last = contents.pop()
            for content in contents:
                yield from self._ended(content, len(content))
            held, size = [last], len(last)

    def _ended(self, content: bytes, size: int) -> Iterator[PlacedLine | TooLong]:
        """The line that ends here; it may be the rest of one that was already given."""
        read = self.read
        is_rest = read.unended and not content.strip(b"\0 \t\r")
        number = read.lines if read.unended else read.lines + 1
        if not content and size:
            self._last = b"\n"  # a long line's own bytes aren't kept
        else:
            self._last = (self._last + content[-_BEFORE:] + b"\n")[-_BEFORE:]
        self._move(size + 1, number)
        if is_rest:
            return
        if size > LONGEST_LINE:
            yield TooLong(number, read.offset, size)
        else:
            yield PlacedLine(number, read.offset, content)

    def _unended(self, held: list[bytes], size: int) -> Iterator[PlacedLine]:
        """The last line, if only its newline is missing."""
        whole = b"".join(held).rstrip(b"\0 \t\r")
        if size > LONGEST_LINE or not is_object(whole):
            return
        read = self.read
        number = read.lines if read.unended else read.lines + 1
        self._last = (self._last + whole[-_BEFORE:])[-_BEFORE:]
        self._move(len(whole), number, unended=True)
        yield PlacedLine(number, read.offset, whole)

    def _move(self, length: int, lines: int, *, unended: bool = False) -> None:
        device, inode, offset, _, before, _ = self.read
        self.read = LinesRead(
            device, inode, offset + length, lines, before, unended
        )  # sooner than `_replace`

    def place(self) -> LinesRead:
        """How far the lines were given, to be kept."""
        length = min(len(self._last), _BEFORE)
        return self.read._replace(before=f"{length}:{_hash(self._last)}")

    def _knows(self, read: LinesRead, fresh: LinesRead) -> bool:
        """Whether the file still has the same content before this position."""
        if (read.device, read.inode) != (fresh.device, fresh.inode):
            return False
        length, _, digest = read.before.partition(":")
        if not length.isdecimal():
            return read.offset == 0
        self._open(read.offset - int(length))
        last = b""
        while len(last) < int(length) and (piece := self._piece(int(length) - len(last))):
            last += piece
        self._last = last
        return _hash(last) == digest

    def _open(self, offset: int) -> None:
        self._at = max(0, offset)
        if self._is_packed:
            self._unpacked = Unpacked(self._descriptor)
            while offset > 0 and (piece := self._unpacked.read(min(_CHUNK, offset))):
                offset -= len(piece)

    def _piece(self, most: int = _CHUNK) -> bytes:
        if self._end is not None:
            most = min(most, max(0, self._end - self._at))
        if self._unpacked is None:
            piece = os.pread(self._descriptor, most, self._at)
        else:
            piece = self._unpacked.read(most) if most else b""
        self._at += len(piece)
        if not self._go_on(len(piece)):
            raise Halted
        return piece

    def _hole(self) -> int:
        """Skip zero bytes that were never written; returns how many they are."""
        following = data_after(self._descriptor, self._at)
        length, self._at = following - self._at, following
        return length


def _hash(last: bytes) -> str:
    return hashlib.blake2b(last, digest_size=16).hexdigest()
