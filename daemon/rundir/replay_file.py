"""Reading a replay from a file, line by line: hashed on the way, and no line is held that is too long."""

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from runward.daemon.disk.sparse import data_after, is_empty
from runward.handlers.bundle.replay_lines import LONGEST_LINE, RawLine

_CHUNK: Final = 1 << 20


class ReplayFile:
    """The lines of an open file; `size` and `sha256` are of what was read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._digest = sha256()
        self._has_large_hole = False
        self.size = 0

    @property
    def sha256(self) -> str | None:
        """The hash of what was read; None if a hole is longer than any line, because such a hole is not hashed."""
        return None if self._has_large_hole else self._digest.hexdigest()

    def whole(self, largest: int) -> bytes | None:
        """All of the file; None if it has more bytes than `largest`. Raises `OSError`."""
        if os.fstat(self._descriptor).st_size > largest:
            return None
        pieces: list[bytes] = []
        while piece := os.pread(self._descriptor, _CHUNK, self.size):
            self.size += len(piece)
            if self.size > largest:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def lines(self) -> Iterator[RawLine]:
        """Every line without its newline, the last one with or without. Raises `OSError`."""
        number = 0
        held: list[bytes] = []
        length = 0
        while piece := os.pread(self._descriptor, _CHUNK, self.size):
            self.size += len(piece)
            self._digest.update(piece)
            *whole, rest = piece.split(b"\n")
            for part in whole:
                number += 1
                line = _line(number, held, length, part)
                held, length = [], 0  # nothing is held twice while the line is read
                yield line
            length += len(rest)
            if rest and length <= LONGEST_LINE:
                held.append(rest)
            elif length > LONGEST_LINE:
                held = []
            if is_empty(piece) and (passed := self._pass_over_hole()):
                length += passed
                held = [*held, bytes(passed)] if length <= LONGEST_LINE else []
        if length:
            yield _line(number + 1, held, length, b"")

    def _pass_over_hole(self) -> int:
        """Skip a hole; returns its length."""
        end = data_after(self._descriptor, self.size)
        passed = end - self.size
        self.size = end
        if passed > LONGEST_LINE:
            self._has_large_hole = True
        else:
            self._digest.update(bytes(passed))
        return passed


def _line(number: int, held: list[bytes], length: int, part: bytes) -> RawLine:
    if length + len(part) > LONGEST_LINE:
        return RawLine(number, None)
    return RawLine(number, b"".join([*held, part]) if held else part)
