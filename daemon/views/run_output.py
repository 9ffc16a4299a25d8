"""What a run printed, as its logs have it: from its beginning, over what was left out, to its end."""

import os
import re
from collections.abc import Iterator
from typing import Final

from runward.daemon.launch.log_tail import SUFFIX, omission
from runward.daemon.rundir.tailing import NotRegular, open_in_run

_CHUNK: Final = 1 << 16
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_OMISSION: Final = re.compile(rb"\nrunward: ([0-9]{1,18}) bytes are left out here \(log_limit\)\n")


class RunOutput:
    """One log of a run directory, read from where the last reading ended.

    While the run is alive, and after its launcher was killed, the end of a long log is in pieces (`log_tail.py`).
    """

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._name = name
        self._at = 0
        """How much of the whole output was read, or passed over where it is left out."""
        self._head: int | None = None
        """Where the pieces begin, once there were any."""

    def added(self) -> Iterator[bytes]:
        """What was added since the last call. Raises `OSError` and `NotRegular` if there is no such log."""
        pieces = self._pieces()
        if pieces:
            self._head = pieces[0][0]
        if self._head is None:
            yield from self._read(self._name, 0, None)
            return
        yield from self._read(self._name, 0, self._head)
        if not pieces:
            yield from self._joined(self._head)
        for head, start in pieces:
            yield from self._pass_over(start)
            try:
                yield from self._read(f"{self._name}{SUFFIX}/{head}-{start}", start, None)
            except FileNotFoundError:
                return  # it was thrown away, or joined to the log, just now: the next look tells

    @property
    def is_in_pieces(self) -> bool:
        """Whether the end of the log is still kept apart from its beginning."""
        return bool(self._pieces())

    def newest(self, longest: int) -> bytes:
        """The last `longest` bytes at most. Raises `OSError` and `NotRegular`."""
        pieces = self._pieces()
        name = f"{self._name}{SUFFIX}/{pieces[-1][0]}-{pieces[-1][1]}" if pieces else self._name
        descriptor = self._opened(name)
        try:
            return os.pread(descriptor, longest, max(0, os.fstat(descriptor).st_size - longest))
        finally:
            os.close(descriptor)

    def _joined(self, head: int) -> Iterator[bytes]:
        """The end of a log whose pieces were joined to it since the last call."""
        descriptor = open_in_run(self._directory, self._name)
        try:
            said = _OMISSION.match(os.pread(descriptor, 100, head))
        finally:
            os.close(descriptor)
        start, length = (head + int(said[1]), len(said[0])) if said else (head, 0)
        yield from self._pass_over(start)
        yield from self._read(self._name, start - head - length, None)

    def _pass_over(self, start: int) -> Iterator[bytes]:
        if self._at < start:
            yield omission(start - self._at)
            self._at = start

    def _read(self, name: str, start: int, end: int | None) -> Iterator[bytes]:
        """The rest of a file whose first byte is that of the output at `start`; up to `end` of the output."""
        descriptor = self._opened(name)
        try:
            while end is None or self._at < end:
                longest = _CHUNK if end is None else min(_CHUNK, end - self._at)
                content = os.pread(descriptor, longest, self._at - start)
                if not content:
                    return
                self._at += len(content)
                yield content
        finally:
            os.close(descriptor)

    def _opened(self, name: str) -> int:
        """Without a slash behind the directory, which would follow a link in its place. Raises `OSError` and `NotRegular`."""
        pieces, _, within = name.rpartition("/")
        return open_in_run(os.path.join(self._directory, pieces) if pieces else self._directory, within)

    def _pieces(self) -> list[tuple[int, int]]:
        try:
            directory = os.open(os.path.join(self._directory, self._name + SUFFIX), _LISTED)
        except OSError:
            return []  # there are none, or something else is there
        try:
            found = (_PIECE.fullmatch(name) for name in os.listdir(directory))
            return sorted((int(each[1]), int(each[2])) for each in found if each is not None)
        finally:
            os.close(directory)


def last_lines(directory: str, name: str, count: int) -> list[str]:
    """The last lines of a log; empty if it can't be read."""
    try:
        newest = RunOutput(directory, name).newest(_CHUNK)
    except (OSError, NotRegular):
        return []
    return [text_of(line) for line in newest.split(b"\n") if line.strip()][-count:]


def text_of(line: bytes) -> str:
    """A line without its newline."""
    return line.removesuffix(b"\r").decode("utf-8", "backslashreplace")
