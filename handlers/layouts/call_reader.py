"""What the reader of a layout's calls gets and returns.

A reader goes through a session's files once, in order, and reports each call with its place. It keeps nothing
of what it has reported except what it needs to continue. It never raises because of what an agent wrote.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from runward.handlers.calls import Place, Told
from runward.handlers.model.sessions import Document

LONGEST_LINE: Final = 64 << 20
"""Bytes of a line that is read. Longer lines are not read at all."""


class PlacedLine(NamedTuple):
    """A line without its newline, and the byte at which it begins. `number` counts from 1."""

    number: int
    start: int
    content: bytes

    def place(self, source: str) -> Place:
        """The place of this line."""
        return Place(source, self.number, self.start, len(self.content))


class CallReader(Protocol):
    """Reads the calls of one session. `source` is a file's path relative to the session's place."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """Take in further whole lines of a log."""
        ...

    def see(self, document: Document) -> Iterator[Told]:
        """Take in a document that is new or was rewritten."""
        ...


class CallLayout(NamedTuple):
    """How a layout records calls.

    `start` gives a reader for the session whose file or directory has this name. `logs` and `documents` are the files to
    read in a session's directory; the documents come first. A session that is a single log has neither.
    """

    start: Callable[[str], CallReader]
    logs: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()


class WithoutDocuments:
    """A reader that reads no documents."""

    def see(self, document: Document) -> Iterator[Told]:
        """There are none."""
        return iter(())
