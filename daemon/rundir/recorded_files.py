"""Opening a file that a session left, below the session's own root: no link is followed, and only regular files are opened."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from runward.daemon.rundir.growing import FileBytes, Lines, Position
from runward.daemon.rundir.opening import held, open_place, open_regular

_CHUNK: Final = 1 << 16


class OutsideRoot(Exception):
    """A path that leads, or could lead, out of the root."""


class Place(NamedTuple):
    """A directory below `root`, which the operator named; links on the way to `root` itself are followed."""

    root: str
    directory: str


@contextmanager
def opened_directory(place: Place, below: tuple[str, ...] = ()) -> Iterator[int]:
    """A descriptor of the directory, or of one below it. Raises `OSError` and `OutsideRoot`."""
    with held(open_place(place.root, [*_names(_relative(place)), *below])) as descriptor:
        yield descriptor


def open_recorded(place: Place, path: str) -> int:
    """A descriptor of the regular file `path`, relative to the place. Raises `OSError`, `NotRegular` and `OutsideRoot`."""
    *parents, name = _names(path) or [""]
    if not name:
        raise OutsideRoot("it names no file")
    with opened_directory(place, tuple(parents)) as within:
        return open_regular(within, name)


def _relative(place: Place) -> str:
    root = place.root.rstrip("/")
    if place.directory == root:
        return ""
    if not place.directory.startswith(f"{root}/"):
        raise OutsideRoot(f"{place.directory} is not below {root}")
    return place.directory[len(root) + 1 :]


def _names(path: str) -> list[str]:
    if path.startswith("/"):
        raise OutsideRoot("it is an absolute path")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names or "\0" in path:
        raise OutsideRoot("it leads upwards")
    return names


LONGEST_LINE: Final = 1 << 20
"""Bytes of a line that is read for a page."""


class Budget:
    """Bytes that may still be read for a page, of all its files together."""

    def __init__(self, left: int) -> None:
        self.left = left


class LineAt(NamedTuple):
    """A line without its newline, and the byte at which it begins; without `content` if it is too long.

    The last one has no content either: the next page goes on at its `start`, and `ends` says why the reading ended.
    """

    start: int
    content: bytes | None
    ends: Literal["file", "budget"] | None = None


def lines_from(descriptor: int, start: int, budget: Budget) -> Iterator[LineAt]:
    """The lines of an open file from a byte on. No more than the budget is read, whatever is in the file."""
    lines = Lines(FileBytes(descriptor, start), LONGEST_LINE, Position(start))
    while budget.left > 0 and (whole := lines.read(min(_CHUNK, budget.left))) is not None:
        budget.left -= whole.size
        at = whole.before.offset
        for index, content in enumerate(whole.contents):
            yield LineAt(at, None if index in whole.cut else content)
            at += whole.length(index) + 1
    at = lines.position.offset
    ends: Literal["file", "budget"] = "budget" if budget.left <= 0 else "file"
    if lines.is_too_long:
        # The next page goes on in the middle of a line that is passed over: else it would never get beyond it.
        at += lines.length
    elif lines.length and ends == "file":
        yield LineAt(at, lines.unfinished)
    yield LineAt(at, None, ends)


def line_at(descriptor: int, start: int) -> bytes | None:
    """The line that begins at a byte; None if none begins there, or it is too long."""
    if start and os.pread(descriptor, 1, start - 1) != b"\n":
        return None
    line = next(lines_from(descriptor, start, Budget(LONGEST_LINE + _CHUNK)), None)
    return None if line is None else line.content
