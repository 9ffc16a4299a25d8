"""The lines of a file one by one, of any length: one that is too long is skipped, and nothing else is."""

import os
from collections.abc import Iterator
from typing import Final

_CHUNK: Final = 1 << 20


def whole_lines(descriptor: int, size: int, longest: int) -> Iterator[tuple[int, bytes]]:
    """The lines in the first `size` bytes with their places, each with its newline; the last one may have none.

    A line of more than `longest` bytes may be left out. Raises `OSError`.
    """
    begin, rest, position = 0, b"", 0
    while position < size:
        piece = os.pread(descriptor, min(_CHUNK, size - position), position)
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
