"""One log of a run: the output's beginning and, if it exceeds its limit, its end.

The first half of the limit is the file itself. What comes after it goes into pieces next to it; the oldest of them are
deleted. There is never more than the limit, whatever happens to the launcher. At the end the pieces are joined to the
file, with a line that says how much is left out between them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from runward.daemon.launch.log_tail import LogTail


class RunLog:
    """A log that is written. `name` is that of the open file `descriptor` in the open directory `within`.

    `limit` is the number of bytes that it may take, 0 for no limit.
    """

    def __init__(self, descriptor: int, within: int, name: str, limit: int) -> None:
        self.descriptor = descriptor
        self.size = 0
        """The bytes that it was given."""
        self._within = within
        self._name = name
        self._limit = limit
        self._tail: LogTail | None = None

    def append(self, content: bytes) -> None:
        """Appends to its end. Raises OSError."""
        rest = memoryview(content)
        self.size += len(rest)
        if self._tail is None and self._limit and self.size > self._limit // 2:
            from runward.daemon.launch.log_tail import LogTail  # most runs write less

            head = self._limit // 2
            room = head - (self.size - len(rest))
            write_all(self.descriptor, rest[:room])
            rest = rest[room:]
            self._tail = LogTail(self._within, self._name, head, self._limit - head)
        if self._tail is not None:
            self._tail.append(rest)
        else:
            write_all(self.descriptor, rest)

    def close(self) -> int:
        """Completes it; returns how many bytes it leaves out. Raises OSError if its pieces stay next to it."""
        try:
            return 0 if self._tail is None else self._tail.join(self.descriptor)
        finally:
            os.close(self.descriptor)


def write_all(descriptor: int, content: memoryview) -> None:
    """All of it. Raises OSError."""
    while content:
        content = content[os.write(descriptor, content) :]
