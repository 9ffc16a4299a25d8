"""Runward's lines in a journal as they are on the disk: compared with the store, and read to rebuild a session's state.

Nothing here writes.
"""

import errno
import os
import stat
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import takewhile
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.daemon.rundir.growing import whole_lines
from runward.daemon.rundir.journals import SEARCHED, Line, StandingLines, each_line, find
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REGULAR, Gone, opened, unreadable
from runward.handlers.foreign_json import read_json
from runward.handlers.model.files import Unreadable

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


REPLACED: Final = frozenset({errno.ELOOP, errno.ENXIO})
"""The error of an open if something other than a file is there now."""

_LONGEST: Final = 1 << 20
"""The number of bytes to read of a line that is in the place of Runward's."""

_TAIL: Final = 16
"""If this many bytes of a line's end are in their place, what differs before them was changed in place."""


def compare(directory: str, name: str, lines: Sequence[StandingLines]) -> Compared | Gone | Unreadable:
    """Those of `lines`, given in the order of their rows, that are not as they were written.

    `Gone` if the run's directory was removed. `Unreadable` if that can't be determined: its root is missing or empty
    (an empty root looks like a missing mount), or the disk refuses.
    """
    try:
        within = os.open(directory, DIRECTORY)
    except OSError as error:
        if error.errno in ABSENT or error.errno == errno.ELOOP:
            return _without_directory(os.path.dirname(directory))
        return unreadable(error)
    try:
        descriptor = os.open(name, REGULAR, dir_fd=within)
    except OSError as error:
        if error.errno in ABSENT or error.errno in REPLACED:
            return _all_gone(lines)
        return unreadable(error)
    finally:
        os.close(within)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return _all_gone(lines)
        return Compared(tuple(_compared(descriptor, status.st_size, list(each_line(lines)))))
    except OSError as error:
        return unreadable(error)
    finally:
        os.close(descriptor)


def _without_directory(root: str) -> Gone | Unreadable:
    try:
        with os.scandir(root) as entries:
            return Gone() if any(True for _ in entries) else Unreadable("its root is empty")
    except OSError as error:
        return Unreadable(f"its root is missing: {error.strerror}")


def _all_gone(lines: Sequence[StandingLines]) -> Compared:
    return Compared(tuple(_altered(each, "gone") for each in each_line(lines)))


def _compared(descriptor: int, size: int, lines: Sequence[Line]) -> Iterator[AlteredLine]:
    # Nearly always everything is where it was written, and nothing is searched.
    stands = [os.pread(descriptor, len(each.content), each.offset) == each.content for each in lines]
    if all(stands):
        return
    searched = min(size, SEARCHED)
    moved = [
        not there and find(descriptor, each.content, searched) >= 0
        for each, there in zip(lines, stands, strict=True)
    ]
    last = max(
        (
            each.offset
            for each, there, elsewhere in zip(lines, stands, moved, strict=True)
            if there or elsewhere
        ),
        default=-1,
    )
    for each, there, elsewhere in zip(lines, stands, moved, strict=True):
        if elsewhere:
            yield _altered(each, "moved")
        elif not there and each.offset < last:
            # What follows was written later and still exists, so a crash can't be the cause.
            yield _altered(each, "changed")
        elif not there:
            yield _at_the_end(descriptor, each)


def _at_the_end(descriptor: int, line: Line) -> AlteredLine:
    """The state of a line if no line of Runward's follows: others may have continued at the cut."""
    there = os.pread(descriptor, len(line.content), line.offset)
    left = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(there, line.content, strict=False)))
    if len(there) == len(line.content) and there.endswith(line.content[-_TAIL:]):
        return _altered(line, "changed")
    if left < len(there):
        whole = read_json(_line_at(descriptor, line.offset))
        if isinstance(whole, dict):
            return _altered(line, "changed" if _same_fact(whole, line.content) else "gone")
    return _altered(line, "torn", left) if left else _altered(line, "gone")


def _line_at(descriptor: int, offset: int) -> bytes:
    return os.pread(descriptor, _LONGEST, offset).partition(b"\n")[0]


def _same_fact(value: Mapping[str, JsonValue], line: bytes) -> bool:
    """Whether the text in place of our line says that it follows from the same event."""
    ours = read_json(line)
    return isinstance(ours, dict) and value.get("hash") == ours.get("hash")


def _altered(line: Line, state: LineState, left: int = 0) -> AlteredLine:
    return AlteredLine(line.row, state, line.offset, line.content, left)


LONGEST: Final = 8 << 20
"""Bytes of a line that are read: a contract of a thousand entries is about half of it."""


class JournalAway(Exception):
    """The lines can't be read, so nothing is known about them; the message says why."""


def lines_with_hashes(
    directory: str, name: str, hashes: Container[str], read: Callable[[int], None]
) -> Iterator[JsonValue]:
    """The lines that carry one of these hashes. `read` is called with the number of bytes that were read.

    None if there is no such file in the directory. Raises `JournalAway`.
    """
    with ExitStack() as held:
        try:
            within = held.enter_context(opened(directory, DIRECTORY))
        except OSError as error:
            gone = error.errno in ABSENT or error.errno == LINK
            raise JournalAway("its directory is gone" if gone else str(error.strerror)) from error
        try:
            descriptor = held.enter_context(opened(name, REGULAR, within))
        except OSError as error:
            if error.errno in ABSENT or error.errno == LINK:
                return
            raise JournalAway(f"its journal can't be read: {error.strerror}") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        if status.st_size > SEARCHED:
            raise JournalAway(f"its journal has more than {SEARCHED} bytes")
        try:
            for _, line in whole_lines(descriptor, status.st_size, LONGEST):
                read(len(line))
                value = read_json(line) if b'"hash"' in line else None
                if isinstance(value, dict) and value.get("hash") in hashes:
                    yield value
        except OSError as error:
            raise JournalAway(f"its journal can't be read: {error.strerror}") from error
