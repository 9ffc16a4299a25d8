"""The lines of a growing file, read from where the last reading ended: whole lines only, in bounded memory.

`Lines` is the one reader of files that somebody may still be writing to. It knows its `Position`, so another reading can
continue there, also after a restart. `Tail` follows the file at a path for those who watch it. Nothing here writes, and
little is imported: commands start with it.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from runward.daemon.rundir.opening import NotRegular, held, open_in_run

RECOGNISED_BY: Final = 64
"""Bytes before a position by which it is recognised in its file."""


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


class Source(Protocol):
    """Bytes in order."""

    def read(self, most: int) -> bytes:
        """At most this many of the next bytes; none at the end."""
        ...

    def pass_over_hole(self) -> int:
        """Skip the following zero bytes that were never written; returns how many they are."""
        ...


class FileBytes:
    """The bytes of an open file from `at` on, and up to `end` if there is one. The descriptor stays the caller's."""

    def __init__(self, descriptor: int, at: int = 0, end: int | None = None) -> None:
        self._descriptor = descriptor
        self._end = end
        self.at = at

    def read(self, most: int) -> bytes:
        if self._end is not None:
            most = min(most, max(0, self._end - self.at))
        # `pread`, because others may read through the same descriptor: it has a position of its own.
        piece = os.pread(self._descriptor, most, self.at)
        self.at += len(piece)
        return piece

    def pass_over_hole(self) -> int:
        following = data_after(self._descriptor, self.at)
        length, self.at = following - self.at, following
        return length


def exactly(source: Source, length: int) -> bytes:
    """The next `length` bytes, or as many as there are."""
    pieces = b""
    while len(pieces) < length and (piece := source.read(length - len(pieces))):
        pieces += piece
    return pieces


class Position(NamedTuple):
    """A position in a file: the bytes and lines before it, and the last of these bytes.

    `in_long_line`: the line that begins before here was given already, as cut. `unended`: the last line before here was
    given before its newline came.
    """

    offset: int = 0
    lines: int = 0
    last: bytes = b""
    in_long_line: bool = False
    unended: bool = False


BEGINNING: Final = Position()


class CutLine(NamedTuple):
    """A line of which only the beginning is kept: its length in bytes, and its last bytes."""

    length: int
    last: bytes


_NONE_CUT: Final[Mapping[int, CutLine]] = {}


class Whole(NamedTuple):
    """The lines that ended in a piece, without their newlines, and the position before the first of them.

    `size` is the piece's, in bytes. `cut` are the lines that are too long, by their index.
    """

    before: Position
    size: int
    contents: list[bytes]
    cut: Mapping[int, CutLine] = _NONE_CUT

    @property
    def number(self) -> int:
        """The number of the first line, counted from 1. It may continue one that was given before its newline came."""
        return self.before.lines + (not self.before.unended)

    def length(self, index: int) -> int:
        """The length of a line in bytes, also of what isn't kept of it."""
        return self.cut[index].length if index in self.cut else len(self.contents[index])

    def position_after(self, count: int) -> Position:
        """The position after the first `count` lines."""
        if not count:
            return self.before
        last = self.before.last
        for index in range(max(0, count - RECOGNISED_BY), count):
            end = self.cut[index].last if index in self.cut else self.contents[index][-RECOGNISED_BY:]
            last = _end_of(last, end + b"\n")
        length = sum(self.length(index) + 1 for index in range(count))
        return Position(self.before.offset + length, self.number + count - 1, last)


class Lines:
    """The lines of a source from a position on; of a line, at most `longest` bytes are kept.

    `position` is after the last whole line, and `length` the number of bytes that follow it: the unfinished line.
    """

    def __init__(self, source: Source, longest: int, position: Position = BEGINNING) -> None:
        self._source = source
        self._longest = longest
        self._held: list[bytes] = []
        self._last = position.last
        """The last bytes that were read."""
        self.position = position
        self.length = 0

    @property
    def unfinished(self) -> bytes:
        """What is kept of the unfinished line."""
        return b"".join(self._held)

    @property
    def is_too_long(self) -> bool:
        """Whether the unfinished line is longer than what is kept of it."""
        return self.length > self._longest

    def read(self, most: int) -> Whole | None:
        """The lines that end in the next piece of at most `most` bytes; None at the end of the source."""
        piece = self._source.read(most)
        if not piece:
            return None
        size = len(piece)
        if self.position.in_long_line:
            piece = self._pass_over(piece)
            if not piece:
                return Whole(self.position, size, [])
        # Split before anything is joined: so the bulk of a large file is copied once, not four times.
        contents, rest_before = piece.split(b"\n"), self._last
        rest = contents.pop()
        self._last = _end_of(rest_before, piece)
        if not contents:
            self._hold(rest)
            if self.is_too_long and is_empty(rest):
                self._pass_over_hole()
            return Whole(self.position, size, contents)
        before, cut, end = self.position, _NONE_CUT, len(piece) - len(rest)
        whole = self.length + end
        if whole > self._longest:  # else no line is too long
            cut = self._cut(contents, rest_before)
        if self._held:
            contents[0] = b"".join([*self._held, contents[0]])[: self._longest]
        last = piece[end - RECOGNISED_BY : end] if end >= RECOGNISED_BY else _end_of(rest_before, piece[:end])
        # The first of them may continue a line that has its number already.
        self.position = Position(before.offset + whole, before.lines + len(contents) - before.unended, last)
        self._held, self.length = [], 0
        self._hold(rest)
        return Whole(before, size, contents, cut)

    def _cut(self, contents: list[bytes], rest_before: bytes) -> Mapping[int, CutLine]:
        """Cut the lines that are too long. The first of them begins with what was held."""
        cut: dict[int, CutLine] = {}
        for index, content in enumerate(contents):
            length = len(content) if index else self.length + len(content)
            if length > self._longest:
                cut[index] = CutLine(length, _end_of(b"" if index else rest_before, content))
                contents[index] = content[: self._longest]
        return cut

    def give_cut(self) -> bytes:
        """What is kept of the unfinished line, which is given with that. The rest of it is passed over."""
        content = self.unfinished
        self.position = Position(
            self.position.offset + self.length, self.position.lines + 1, self._last, in_long_line=True
        )
        self._held, self.length = [], 0
        return content

    def give_unended(self, length: int) -> None:
        """The first `length` bytes of the unfinished line are given as a line. What follows them continues it."""
        content = self.unfinished
        last = self._last if length == self.length else _end_of(self.position.last, content[:length])
        number = self.position.lines + (not self.position.unended)
        self.position = Position(self.position.offset + length, number, last, unended=True)
        self._held, self.length = [content[length:]], self.length - length

    def _hold(self, rest: bytes) -> None:
        room = self._longest - self.length
        if room > 0:
            self._held.append(rest[:room])
        self.length += len(rest)

    def _pass_over(self, piece: bytes) -> bytes:
        """Pass over the rest of a line that was given as cut: what follows it in the piece."""
        ended, newline, following = piece.partition(b"\n")
        self._last = _end_of(self._last, ended + newline)
        offset = self.position.offset + len(ended) + len(newline)
        self.position = Position(offset, self.position.lines, self._last, in_long_line=not newline)
        if not newline and is_empty(ended):
            self._pass_over_hole()
        return following

    def _pass_over_hole(self) -> None:
        # Only in a line that is too long anyway: nothing of it is kept. A hole may be larger than any disk, so it must
        # not be read.
        passed = self._source.pass_over_hole()
        self._last = _end_of(self._last, bytes(min(passed, RECOGNISED_BY)))
        if self.position.in_long_line:
            self.position = self.position._replace(offset=self.position.offset + passed, last=self._last)
        else:
            self.length += passed


def _end_of(before: bytes, piece: bytes) -> bytes:
    """The last bytes of `piece`, with `before` before it."""
    return piece[-RECOGNISED_BY:] if len(piece) >= RECOGNISED_BY else (before + piece)[-RECOGNISED_BY:]


_LARGE_CHUNK: Final = 1 << 20


def whole_lines(descriptor: int, size: int, longest: int) -> Iterator[tuple[int, bytes]]:
    """The lines in the first `size` bytes with where they begin, each with a newline, also if the last one has none yet.

    Lines of more than `longest` bytes are left out. Raises `OSError`.
    """
    source = FileBytes(descriptor, end=size)
    lines = Lines(source, longest)
    while (whole := lines.read(_LARGE_CHUNK)) is not None:
        start = whole.before.offset
        for index, content in enumerate(whole.contents):
            if index not in whole.cut:
                yield start, content + b"\n"
            start += whole.length(index) + 1
    # If the file is shorter by now, what is left is not the line that ends at `size`.
    if lines.length and not lines.is_too_long and source.at >= size:
        yield lines.position.offset, lines.unfinished + b"\n"


MAXIMUM_LINE: Final = 1 << 20
"""Bytes of a line that are kept for those who watch a file; a longer one is cut and marked as cut."""

_CHUNK: Final = 1 << 16


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
        self._source = FileBytes(self._descriptor)
        self._lines = Lines(self._source, MAXIMUM_LINE)

    def lines(self) -> Iterator[Line]:
        """The whole lines that were added since the last call. Raises `OSError`."""
        if os.fstat(self._descriptor).st_size < self._source.at:
            self._begin()  # it was truncated: its content is new
        while (whole := self._lines.read(_CHUNK)) is not None:
            for index, content in enumerate(whole.contents):
                yield Line(whole.number + index, content, index in whole.cut)

    def unfinished(self) -> Line | None:
        """The last line, if nobody has ended it yet. What is added to it later is given as a line of its own."""
        lines = self._lines
        if not lines.length:
            return None
        content, is_cut = lines.unfinished, lines.is_too_long
        lines.give_unended(lines.length)
        return Line(lines.position.lines, content, is_cut)

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


def ends_with(directory: str, name: str, content: bytes) -> bool:
    """Whether `content` is near the end of a run's file. A file that can't be read ends with nothing."""
    try:
        descriptor = open_in_run(directory, name)
    except (OSError, NotRegular):
        return False
    with held(descriptor):
        length = len(content) + MAXIMUM_LINE
        return content in os.pread(descriptor, length, max(0, os.fstat(descriptor).st_size - length))


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
