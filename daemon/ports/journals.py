"""Lines of journals, as they should be and as they were found."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Journal: TypeAlias = tuple[str, str]
"""A run's directory and the name of the journal in it."""


class JournalLine(NamedTuple):
    """Bytes that should be once in the file `name` of `directory`, appended as a whole.

    `check` says that they may already be there, whole or in part (an earlier daemon had to write them). `live` means
    that the run may be in the middle of a line. If an earlier store may have written to this journal, `known` are our
    lines in it that this store knows, and other lines that say the same as these may be there; else it is None.
    `only_first`: nothing is written if the journal isn't empty (`NotFirst`).
    """

    directory: str
    name: str
    content: bytes
    check: bool
    live: bool
    known: tuple[StandingLines, ...] | None = None
    only_first: bool = False


class NotFirst(NamedTuple):
    """The journal isn't empty: its content must be known before the line is written."""


class Appended(NamedTuple):
    """The lines are at `offset`. `closed` bytes of a foreign torn line were closed off before them.

    `places` are their pieces (offset, length) in order, if something else is between them. `adopted` is what is there,
    if that isn't the exact content but lines that say the same.
    """

    offset: int
    already: bool = False
    closed: int = 0
    places: tuple[tuple[int, int], ...] = ()
    adopted: bytes | None = None


class NotAppended(NamedTuple):
    """The line isn't there. `for_good` means that it never will be, because its directory no longer exists."""

    why: str
    for_good: bool = False


class StandingLines(NamedTuple):
    """Lines of Runward's that were written to a journal and synced, as the store remembers them.

    `row` is their number in the store; `places` as in `Appended`.
    """

    row: int
    content: bytes
    offset: int
    places: tuple[tuple[int, int], ...] = ()


LineState: TypeAlias = Literal["gone", "torn", "changed", "moved"]
"""What happened to a line of Runward's: nothing or only its beginning remains, it was changed or removed in place, or it
is somewhere else in the file than where it was written."""


class AlteredLine(NamedTuple):
    """A line of Runward's that isn't at `offset`, where it was written.

    `left` is how many bytes of a torn line are still there.
    """

    row: int
    state: LineState
    offset: int
    content: bytes
    left: int = 0


class Compared(NamedTuple):
    """Those of our lines in a journal that are not as they were written, in order."""

    altered: tuple[AlteredLine, ...]


class EpochPassed(Exception):
    """Another daemon has taken over the state directory: this one must not do anything more."""
