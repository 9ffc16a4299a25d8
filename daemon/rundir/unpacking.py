"""Unpacking `.zst` files in pieces, with bounds: a packed file may unpack to more than any disk can store."""

import os
from typing import IO, Final, cast

import zstandard

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
