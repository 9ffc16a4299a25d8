"""Runward's own lines in a journal one by one, as the store knows them: one row may be several lines."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from runward.daemon.ports.journals import StandingLines

SEARCHED: Final = 64 << 20
"""Bytes of a journal in which a line is looked for that isn't where it was written."""


class Line(NamedTuple):
    """One line of Runward's, and where it was written; `row` is its number in the store."""

    row: int
    offset: int
    content: bytes


def each_line(rows: Sequence[StandingLines]) -> Iterator[Line]:
    """Every single line with its own place."""
    for row in rows:
        contents = iter(row.content.splitlines(keepends=True))
        for offset, length in row.places or ((row.offset, len(row.content)),):
            end = offset + length
            while offset < end:
                content = next(contents)
                yield Line(row.row, offset, content)
                offset += len(content)
