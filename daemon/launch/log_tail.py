"""The end of a run's log that exceeds its limit: in pieces next to the log. The oldest pieces are deleted.

They are in the directory `stdout.log.tail`. A piece is called `HEAD-START`: the bytes of the log that come before all
pieces, and the position in the whole output where this one begins. So a reader knows the order and what is left out,
even if the launcher was killed.
"""

from __future__ import annotations

import os

from runward.daemon.launch.run_log import write_all

SUFFIX = ".tail"
_JOINED = ".joined"
_PIECES = 2
_CHUNK = 1 << 20


class LogTail:
    """The pieces next to the log `name` in the open directory `within`: at most `room` bytes. Raises OSError."""

    def __init__(self, within: int, name: str, head: int, room: int) -> None:
        self._within = within
        self._name = name + SUFFIX
        self._head = head
        self._longest = max(1, room // _PIECES)
        self._end = head
        self._pieces: list[tuple[int, int]] = []
        """Where each begins, and its descriptor: what the run does to their names changes nothing."""
        os.mkdir(self._name, 0o700, dir_fd=within)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._directory = os.open(self._name, flags, dir_fd=within)

    def append(self, content: memoryview) -> None:
        """Appends to the end. Raises OSError."""
        while content:
            if not self._pieces or self._end - self._pieces[-1][0] >= self._longest:
                self._begin_piece()
            start, descriptor = self._pieces[-1]
            part = content[: self._longest - (self._end - start)]
            write_all(descriptor, part)
            self._end += len(part)
            content = content[len(part) :]

    def join(self, log: int) -> int:
        """Appends the pieces to `log` and removes them; returns how many bytes are left out. Raises OSError."""
        omitted = self._pieces[0][0] - self._head if self._pieces else 0
        if omitted:
            write_all(log, memoryview(omission(omitted)))
        for _, descriptor in self._pieces:
            offset = 0
            while content := os.pread(descriptor, _CHUNK, offset):
                write_all(log, memoryview(content))
                offset += len(content)
        # From here on the log is complete: the pieces must not be read after it as well.
        try:
            os.rename(self._name, self._name + _JOINED, src_dir_fd=self._within, dst_dir_fd=self._within)
        except FileNotFoundError:
            return omitted  # the run moved it
        for start, descriptor in self._pieces:
            self._remove(start, descriptor)
        os.close(self._directory)
        os.rmdir(self._name + _JOINED, dir_fd=self._within)
        return omitted

    def _begin_piece(self) -> None:
        while len(self._pieces) >= _PIECES:
            self._remove(*self._pieces.pop(0))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._piece(self._end), flags, 0o600, dir_fd=self._directory)
        self._pieces.append((self._end, descriptor))

    def _remove(self, start: int, descriptor: int) -> None:
        os.close(descriptor)
        try:
            os.unlink(self._piece(start), dir_fd=self._directory)
        except FileNotFoundError:
            pass  # the run did it

    def _piece(self, start: int) -> str:
        return f"{self._head}-{start}"


def omission(count: int) -> bytes:
    """The line that replaces what is left out."""
    return b"\nrunward: %d bytes are left out here (log_limit)\n" % count
