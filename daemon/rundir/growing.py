"""Reading a growing log from where the last reading ended: whole lines, in bounded memory.

`Growing` reads what is needed of every log, and its position, a `Cursor`, is stored with the result of the lines.
`PlacedLines` is for the few lines that are kept, and gives the byte offset of each. A file that was truncated, replaced
or changed before the position is read from its beginning, and this is reported. `.zst` files are unpacked as they are
read, with bounds: a packed file may unpack to more than any disk can store. A last line without its newline counts if it
is a whole JSON object: nothing more can belong to it. To follow one file on a terminal, see `tailing.py`.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import IO, Final, Literal, NamedTuple, Protocol, TypeAlias, cast

import zstandard

from runward.daemon.rundir.opening import Halted
from runward.daemon.rundir.session_reads import UNREAD, Cursor
from runward.daemon.rundir.tailing import data_after, is_empty
from runward.handlers.layouts.call_readers import LONGEST_LINE, PlacedLine
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.layouts.transcript_lines import is_object

LARGEST_WINDOW: Final = 8 << 20
"""Bytes that unpacking may look back, which is the memory it needs; RFC 8878 requires no more of a decoder."""

MOST_PACKED: Final = 2 << 30
MOST_UNPACKED: Final = 1 << 30
"""Bytes that are read of one file, and made of it: reading on unpacks again all that was given before."""

_PIECE: Final = 1 << 17


class CannotUnpack(Exception):
    """The file is not a whole zstd file, or it is too large; the message says which."""


class _FromTheStart:
    """A descriptor's bytes in order, whatever its own position."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._offset = 0

    def read(self, most: int) -> bytes:
        if self._offset > MOST_PACKED:
            raise CannotUnpack(f"is larger than {MOST_PACKED} bytes")
        piece = os.pread(self._descriptor, most, self._offset)
        self._offset += len(piece)
        return piece


class Unpacked:
    """The unpacked bytes of an open file, in order. A truncated file gives what there is of it."""

    def __init__(self, descriptor: int) -> None:
        unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        source = cast("IO[bytes]", _FromTheStart(descriptor))  # it is only asked to read from a file
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
"""Bytes that are asked for at once, unless a line is longer: few enough to be taken from memory that is mapped."""

_BEFORE: Final = 64
"""Bytes before the cursor by which a file is recognised."""

Happened: TypeAlias = Literal["grew", "same", "rewritten", "truncated", "replaced"]
"""What happened to a log since it was last read. After the three in the middle the lines are those of a new file."""

FROM_THE_BEGINNING: Final = frozenset({"rewritten", "truncated", "replaced"})


class Portion(NamedTuple):
    """The result of one reading, and where the next one continues. `more`: there was more than is read at once.

    `taken` is the number of bytes that were read for it.
    """

    lines: list[LogLine]
    cursor: Cursor
    happened: Happened
    more: bool
    taken: int = 0


class _Source(Protocol):
    """The bytes of an opened log, in order."""

    def read(self, most: int) -> bytes: ...

    def pass_over_hole(self) -> int:
        """The length of the following zero bytes that were never written, which needn't be read."""
        ...


class _Plain:
    def __init__(self, descriptor: int, offset: int) -> None:
        self._descriptor = descriptor
        self._offset = offset

    def read(self, most: int) -> bytes:
        piece = os.pread(self._descriptor, most, self._offset)
        self._offset += len(piece)
        return piece

    def pass_over_hole(self) -> int:
        following = data_after(self._descriptor, self._offset)
        length, self._offset = following - self._offset, following
        return length


class Growing:
    """A log that is open for reading. `descriptor` is of a regular file, and stays the caller's."""

    def __init__(self, descriptor: int, cursor: Cursor, *, is_packed: bool = False) -> None:
        self._descriptor = descriptor
        self._is_packed = is_packed
        self._last = b""
        self._rest = b""
        self._size = os.fstat(descriptor).st_size
        self._source, self._cursor, self._happened = self._find(cursor)

    def is_another(self) -> bool:
        """Whether this isn't the file that was read before: then its lines are given from the first one on."""
        return self._happened in FROM_THE_BEGINNING

    def portion(self, most_bytes: int = MOST_BYTES) -> Portion:
        """The next whole lines, from about `most_bytes`. Raises `OSError`, and `CannotUnpack` for a packed file.

        It raises only after all lines before the failing position were given.
        """
        lines: list[LogLine] = []
        before, taken, more = self._cursor, 0, self._happened != "same"
        while more and taken < most_bytes:
            try:
                piece = self._source.read(min(max(_CHUNK, len(self._rest)), most_bytes - taken))
            except (OSError, CannotUnpack):
                if self._cursor == before:
                    raise
                break  # what was read is given first
            taken += len(piece)
            more = bool(piece)
            if piece:
                self._take(piece, lines)
            else:
                self._take_unended(lines)
        happened, self._happened = self._happened, "grew"
        if happened == "grew" and self._cursor == before:
            happened = "same"
        if self._is_packed and not more and not self._rest:
            self._cursor = self._cursor._replace(packed=self._size)
        return Portion(lines, self._cursor, happened, more, taken)

    def torn(self) -> str:
        """What is wrong with the end of a log that was read completely: the end of a sentence, or nothing.

        While somebody still writes to the log, the rest of the line may follow.
        """
        rest = self._rest.strip()
        if not rest:
            return ""
        what = "NUL bytes" if is_empty(rest) else "bytes that are not a complete JSON object"
        return f"ends in {len(rest)} {what}, without a newline: they are ignored"

    def _find(self, cursor: Cursor) -> tuple[_Source, Cursor, Happened]:
        """The position in the file at which reading continues."""
        status = os.fstat(self._descriptor)
        fresh = Cursor(status.st_dev, status.st_ino, before=_hash(b""))
        if cursor == UNREAD:
            return self._open(), fresh, "grew"
        if (cursor.device, cursor.inode) != (fresh.device, fresh.inode):
            return self._open(), fresh, "replaced"
        if self._is_packed and cursor.packed == status.st_size:
            return self._open(), cursor, "same"
        if not self._is_packed and status.st_size < cursor.offset:
            return self._open(), fresh, "truncated"
        length = min(cursor.offset, _BEFORE)
        source = self._open(cursor.offset - length)
        self._last = _exactly(source, length)
        if _hash(self._last) == cursor.before:
            return source, cursor, "grew"
        happened: Happened = "rewritten" if len(self._last) == length else "truncated"
        self._last = b""
        return self._open(), fresh, happened

    def _open(self, offset: int = 0) -> _Source:
        if not self._is_packed:
            return _Plain(self._descriptor, offset)
        unpacked = Unpacked(self._descriptor)
        while offset > 0 and (piece := unpacked.read(min(_CHUNK, offset))):
            offset -= len(piece)
        return unpacked

    def _take(self, piece: bytes, lines: list[LogLine]) -> None:
        """Add the whole lines that end in `piece` to `lines`, and keep what follows them."""
        if self._cursor.in_long_line:
            ended, newline, piece = piece.partition(b"\n")
            self._move(ended + newline, in_long_line=not newline)
            if not newline and is_empty(ended):
                self._pass_over_hole()
        # Cut where the lines end before anything is joined: the bulk of a large log is copied once, not four times.
        contents, before = piece.split(b"\n"), self._rest
        self._rest = contents.pop()
        if contents:
            contents[0] = before + contents[0]
            whole = len(before) + len(piece) - len(self._rest)
            further, number = len(contents), self._cursor.lines + 1
            if self._cursor.unended:  # the first of them continues a line that was already given
                further, number = further - 1, number - 1
                if not contents[0].strip():
                    del contents[0]
                    number += 1
            lines += _lines(number, contents, may_be_long=whole > LONGEST_KEPT)
            end = len(piece) - len(self._rest)
            last = piece[max(0, end - _BEFORE) : end]
            self._move(last if len(last) == _BEFORE else before[-_BEFORE:] + last, further, length=whole)
        else:
            self._rest = before + self._rest
        if len(self._rest) > LONGEST_KEPT:
            lines.append(_line(self._cursor.lines + 1, self._rest))
            self._move(self._rest, 1, in_long_line=True)
            self._rest = b""

    def _take_unended(self, lines: list[LogLine]) -> None:
        """Add the last line to `lines` if only its newline is missing."""
        whole = self._rest.rstrip(b"\0 \t\r")
        if is_object(whole):
            further = 0 if self._cursor.unended else 1  # it may continue a line that was already given
            lines.append(LogLine(self._cursor.lines + further, whole))
            self._rest = self._rest[len(whole) :]
            self._move(whole, further, unended=True)

    def _pass_over_hole(self) -> None:
        length = self._source.pass_over_hole()
        self._cursor = self._cursor._replace(offset=self._cursor.offset + max(0, length - _BEFORE))
        self._move(bytes(min(length, _BEFORE)), in_long_line=True)

    def _move(
        self,
        over: bytes,
        lines: int = 0,
        *,
        length: int | None = None,
        in_long_line: bool = False,
        unended: bool = False,
    ) -> None:
        """Advance over these bytes, which contained this many lines, or over `length` bytes which end with them."""
        self._last = (self._last + over[-_BEFORE:])[-_BEFORE:]
        self._cursor = self._cursor._replace(
            offset=self._cursor.offset + (len(over) if length is None else length),
            lines=self._cursor.lines + lines,
            before=_hash(self._last),
            in_long_line=in_long_line,
            unended=unended,
        )


_WHOLE_LINE: Final[Callable[[tuple[int, bytes, bool]], LogLine]] = partial(tuple.__new__, LogLine)
"""A line, made without a call of Python code: a large transcript has a hundred thousand."""


def _lines(number: int, contents: list[bytes], *, may_be_long: bool) -> Iterable[LogLine]:
    if not may_be_long:
        return map(_WHOLE_LINE, zip(range(number, number + len(contents)), contents, repeat(False)))
    return [_line(number + index, each) for index, each in enumerate(contents)]


def _line(number: int, content: bytes) -> LogLine:
    if len(content) > LONGEST_KEPT:
        return LogLine(number, content[:LONGEST_KEPT], is_cut=True)
    return LogLine(number, content)


def _exactly(source: _Source, length: int) -> bytes:
    """The next `length` bytes, or as many as there are."""
    found = b""
    while len(found) < length and (piece := source.read(length - len(found))):
        found += piece
    return found


def _hash(last: bytes) -> str:
    return hashlib.blake2b(last, digest_size=16).hexdigest()


_SMALL_CHUNK: Final = 1 << 16
"""Bytes that are read at once: larger pieces take longer, because the kernel gives new memory for each."""


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
            while offset > 0 and (piece := self._unpacked.read(min(_SMALL_CHUNK, offset))):
                offset -= len(piece)

    def _piece(self, most: int = _SMALL_CHUNK) -> bytes:
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
