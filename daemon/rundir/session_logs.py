"""The logs of a foreign session, which grow: in portions for the scanners, line by line for the readers of calls.

`Growing` reads what is needed of every log, and its `Cursor` is stored with the result of the lines. `PlacedLines` is for
the few lines that are kept, and gives the byte at which each begins. A file that was truncated, replaced or changed before
the cursor is read from its beginning, and this is reported. `.zst` files are unpacked as they are read, with bounds: a
packed file may unpack to more than any disk can store.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import IO, Final, Literal, NamedTuple, Protocol, TypeAlias, cast

import zstandard

from runward.daemon.rundir.growing import (
    RECOGNISED_BY,
    FileBytes,
    Lines,
    Position,
    Source,
    Whole,
    exactly,
    is_empty,
)
from runward.daemon.rundir.opening import Halted
from runward.handlers.layouts.call_readers import LONGEST_LINE, PlacedLine
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.layouts.transcript_lines import is_object


class Cursor(NamedTuple):
    """How far a log was read: its device and inode, the bytes (unpacked) and lines before here, and the hash of the
    last of these bytes. `in_long_line`: the line that begins before here was given already, as cut. `packed` is the
    size of a packed file that was read to its end (or its earlier size, if it grew meanwhile). `unended`: the last
    line before here was given before its newline came.
    """

    device: int = 0
    inode: int = 0
    offset: int = 0
    lines: int = 0
    before: str = ""
    in_long_line: bool = False
    packed: int = 0
    version: int = 1
    unended: bool = False


UNREAD: Final = Cursor()


LARGEST_WINDOW: Final = 8 << 20
"""Bytes that unpacking may look back, which is the memory it needs; RFC 8878 requires no more of a decoder."""

MOST_PACKED: Final = 2 << 30
MOST_UNPACKED: Final = 1 << 30
"""Bytes that are read of one file, and made of it: reading on unpacks again all that was given before."""

_PIECE: Final = 1 << 17


class CannotUnpack(Exception):
    """The file is not a whole zstd file, or it is too large; the message says which."""


class _Packed(FileBytes):
    """The bytes of a packed file."""

    def read(self, most: int) -> bytes:
        if self.at > MOST_PACKED:
            raise CannotUnpack(f"is larger than {MOST_PACKED} bytes")
        return super().read(most)


class Unpacked:
    """The unpacked bytes of an open file, in order. A truncated file gives what there is of it."""

    def __init__(self, descriptor: int) -> None:
        unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        source = cast("IO[bytes]", _Packed(descriptor))  # it is only asked to read from a file
        self._reader = unpacker.stream_reader(
            source, read_size=_PIECE, read_across_frames=True, closefd=False
        )
        self._count = 0

    def read(self, most: int) -> bytes:
        """At most this many of the next bytes; none at the end. Raises `OSError` and `CannotUnpack`."""
        try:
            piece: bytes = self._reader.read(most)
        except zstandard.ZstdError as error:
            raise CannotUnpack(f"can't be unpacked: {error}") from error
        self._count += len(piece)
        if self._count > MOST_UNPACKED:
            raise CannotUnpack(f"unpacks to more than {MOST_UNPACKED} bytes")
        return piece

    def pass_over_hole(self) -> int:
        """Does nothing: a packed file has no holes."""
        return 0


LONGEST_KEPT: Final = 8 << 20
"""Bytes of a line that are kept; a longer one is cut there and marked as cut."""

MOST_BYTES: Final = 4 << 20
"""Bytes of a log that are read at a time, unless a line is longer."""

_CHUNK: Final = 1 << 17
"""Bytes that are asked for at once: few enough to be taken from memory that is mapped."""

_SMALL_CHUNK: Final = 1 << 16
"""The same for lines one by one: larger pieces take longer, because the kernel gives new memory for each."""

Happened: TypeAlias = Literal["grew", "same", "rewritten", "truncated", "replaced"]
"""What happened to a log since it was last read. After the three in the middle the lines are those of a new file."""

FROM_THE_BEGINNING: Final = frozenset({"rewritten", "truncated", "replaced"})


class Made(Protocol):
    """A log that is not a file, but made as it is read, and always the same up to where it was read."""

    def at(self, offset: int) -> Source:
        """Its bytes from this one on."""
        ...


class _Log:
    """A log that is open for reading. `descriptor` is of a regular file, and stays the caller's, or the log is made."""

    def __init__(
        self, descriptor: int | Made, cursor: Cursor, *, longest: int, chunk: int, is_packed: bool
    ) -> None:
        self._descriptor = descriptor
        self._longest = longest
        self._chunk = chunk
        self._is_packed = is_packed
        fresh, self._size = Cursor(before=_hash(b"")), cursor.offset
        if isinstance(descriptor, int):
            status = os.fstat(descriptor)
            self._size = status.st_size
            fresh = fresh._replace(device=status.st_dev, inode=status.st_ino)
        self._happened: Happened = "grew" if cursor == UNREAD else self._find(cursor, fresh)
        self._cursor = fresh if cursor == UNREAD or self.is_another() else cursor
        if self._cursor is fresh:
            self._lines = Lines(self._open(0), longest)
        self._known = self._lines.position

    def is_another(self) -> bool:
        """Whether this isn't the file that was read before: then its lines are given from the first one on."""
        return self._happened in FROM_THE_BEGINNING

    def _find(self, cursor: Cursor, fresh: Cursor) -> Happened:
        """Find the cursor in the file, to continue there."""
        if (cursor.device, cursor.inode) != (fresh.device, fresh.inode):
            return "replaced"
        if not self._is_packed and self._size < cursor.offset:
            return "truncated"
        # The inode alone isn't enough: a tool may write its log anew in place, and freed inodes are soon used again.
        length = min(cursor.offset, RECOGNISED_BY)
        source = self._open(cursor.offset - length)
        last = exactly(source, length)
        if _hash(last) != cursor.before:
            return "rewritten" if len(last) == length else "truncated"
        self._lines = Lines(source, self._longest, _position(cursor, last))
        return "grew"

    def _open(self, offset: int) -> Source:
        if not isinstance(self._descriptor, int):
            return self._descriptor.at(offset)
        if not self._is_packed:
            return FileBytes(self._descriptor, offset)
        unpacked = Unpacked(self._descriptor)
        while offset > 0 and (piece := unpacked.read(min(self._chunk, offset))):
            offset -= len(piece)
        return unpacked

    def _cursor_at(self, position: Position) -> Cursor:
        """The cursor of a position. It stays as it was stored while nothing is read."""
        if position == self._known:
            return self._cursor
        offset, lines, last, in_long_line, unended = position
        return self._cursor._replace(
            offset=offset, lines=lines, before=_hash(last), in_long_line=in_long_line, unended=unended
        )

    def _take_unended(self) -> LogLine | None:
        """The last line, if only its newline is missing: a whole JSON object, to which nothing more can belong."""
        if self._lines.is_too_long:
            return None
        content = self._lines.unfinished.rstrip(b"\0 \t\r")
        if not is_object(content):
            return None
        self._lines.give_unended(len(content))
        return LogLine(self._lines.position.lines, content)


class Portion(NamedTuple):
    """The result of one reading, and where the next one continues. `more`: there was more than is read at once.

    `taken` is the number of bytes that were read for it.
    """

    lines: list[LogLine]
    cursor: Cursor
    happened: Happened
    more: bool
    taken: int = 0


class Growing(_Log):
    """A log in portions, which are scanned as a whole."""

    def __init__(self, descriptor: int | Made, cursor: Cursor, *, is_packed: bool = False) -> None:
        super().__init__(descriptor, cursor, longest=LONGEST_KEPT, chunk=_CHUNK, is_packed=is_packed)

    def portion(self, most_bytes: int = MOST_BYTES) -> Portion:
        """The next whole lines, from about `most_bytes`. Raises `OSError`, and `CannotUnpack` for a packed file.

        It raises only after all lines before the failing position were given.
        """
        lines: list[LogLine] = []
        before, taken, more = self._lines.position, 0, self._happened != "same"
        while more and taken < most_bytes:
            try:
                whole = self._lines.read(min(self._chunk, most_bytes - taken))
            except (OSError, CannotUnpack):
                if self._lines.position == before:
                    raise
                break  # what was read is given first
            more = whole is not None
            if whole is not None:
                taken += whole.size
                self._take(whole, lines)
            elif unended := self._take_unended():
                lines.append(unended)
        happened, self._happened = self._happened, "grew"
        if happened == "grew" and self._lines.position == before:
            happened = "same"
        self._cursor, self._known = self._cursor_at(self._lines.position), self._lines.position
        # The rest of a torn line is not stored, so a file that ends in one is unpacked again.
        if self._is_packed and not more and not self._lines.length:
            self._cursor = self._cursor._replace(packed=self._size)
        return Portion(lines, self._cursor, happened, more, taken)

    def torn(self) -> str:
        """What is wrong with the end of a log that was read completely: the end of a sentence, or nothing.

        While somebody still writes to the log, the rest of the line may follow.
        """
        rest = self._lines.unfinished.strip()
        if not rest:
            return ""
        what = "NUL bytes" if is_empty(rest) else "bytes that are not a complete JSON object"
        return f"ends in {len(rest)} {what}, without a newline: they are ignored"

    def _find(self, cursor: Cursor, fresh: Cursor) -> Happened:
        is_same = (cursor.device, cursor.inode) == (fresh.device, fresh.inode)
        if self._is_packed and is_same and cursor.packed == self._size:
            # It was read to its end. To recognise the cursor in it, all of it would be unpacked again.
            self._lines = Lines(self._open(0), self._longest, _position(cursor, b""))
            return "same"
        return super()._find(cursor, fresh)

    def _take(self, whole: Whole, lines: list[LogLine]) -> None:
        """Add the lines to `lines`, and the unfinished one as soon as it is too long."""
        number, contents = whole.number, whole.contents
        if contents:
            rows = zip(range(number, number + len(contents)), contents, repeat(False))
            first = len(lines)
            lines += map(_WHOLE_LINE, rows)
            for index in whole.cut:
                lines[first + index] = lines[first + index]._replace(is_cut=True)
            if whole.before.unended and not contents[0].strip():
                del lines[first]  # only the newline of a line that was already given
        if self._lines.is_too_long:
            number = self._lines.position.lines + 1
            lines.append(LogLine(number, self._lines.give_cut(), is_cut=True))


_WHOLE_LINE: Final[Callable[[tuple[int, bytes, bool]], LogLine]] = partial(tuple.__new__, LogLine)
"""A line, made without a call of Python code: a large transcript has a hundred thousand."""


class TooLong(NamedTuple):
    """A line that isn't read, with its length in bytes."""

    number: int
    start: int
    length: int


class _Watched:
    """The bytes of a source, up to the byte `end` if there is one, for someone who counts them and may stop."""

    def __init__(self, source: Source, at: int, end: int | None, go_on: Callable[[int], bool]) -> None:
        self._source = source
        self._at = at
        self._end = end
        self._go_on = go_on

    def read(self, most: int) -> bytes:
        if self._end is not None:
            most = min(most, max(0, self._end - self._at))
        piece = self._source.read(most) if most else b""
        self._at += len(piece)
        if not self._go_on(len(piece)):
            raise Halted
        return piece

    def pass_over_hole(self) -> int:
        passed = self._source.pass_over_hole()
        self._at += passed
        return passed


class PlacedLines(_Log):
    """A log line by line, each with the byte at which it begins.

    Nothing is read from the byte `end` on. `go_on` gets the number of bytes of each piece that was read, and says whether
    to continue. Reading raises `OSError`, `Halted` if `go_on` says no, and `CannotUnpack` for a packed log.
    """

    def __init__(
        self,
        descriptor: int | Made,
        cursor: Cursor,
        *,
        is_packed: bool = False,
        end: int | None = None,
        go_on: Callable[[int], bool] = lambda read: True,
    ) -> None:
        self._end = end
        self._go_on = go_on
        self._whole: Whole | None = None
        self._given = 0
        """How many of these lines were given."""
        super().__init__(descriptor, cursor, longest=LONGEST_LINE, chunk=_SMALL_CHUNK, is_packed=is_packed)

    @property
    def cursor(self) -> Cursor:
        """How far the lines were given."""
        position = self._lines.position if self._whole is None else self._whole.position_after(self._given)
        return self._cursor_at(position)

    def lines(self, most_bytes: int | None = None) -> Iterator[PlacedLine | TooLong]:
        """The lines that are there now; after `most_bytes` no further ones."""
        stop = None if most_bytes is None else self._lines.position.offset + most_bytes
        while stop is None or self._lines.position.offset < stop:
            whole = self._lines.read(self._chunk)
            if whole is None:
                start = self._lines.position.offset
                if line := self._take_unended():
                    yield PlacedLine(line.number, start, line.content)
                return
            self._whole, self._given = whole, 0
            yield from self._placed(whole)
            self._whole = None

    def _placed(self, whole: Whole) -> Iterator[PlacedLine | TooLong]:
        start, number = whole.before.offset, whole.number
        for index, content in enumerate(whole.contents):
            # Before the line is given: a caller that stops there has it.
            self._given = index + 1
            length = whole.length(index)
            is_cut = index in whole.cut
            if index or not whole.before.unended or not (is_cut or _is_blank(content)):
                if is_cut:
                    yield TooLong(number, start, length)
                else:
                    yield PlacedLine(number, start, content)
            start += length + 1
            number += 1

    def _open(self, offset: int) -> Source:
        return _Watched(super()._open(offset), offset, self._end, self._go_on)


def _is_blank(content: bytes) -> bool:
    return not content.strip(b"\0 \t\r")


def _position(cursor: Cursor, last: bytes) -> Position:
    return Position(cursor.offset, cursor.lines, last, cursor.in_long_line, cursor.unended)


def _hash(last: bytes) -> str:
    return hashlib.blake2b(last, digest_size=16).hexdigest()
