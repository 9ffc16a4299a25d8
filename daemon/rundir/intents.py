"""Reading `intents.jsonl` of a run from where the last reading ended. The run writes it, so it is hostile."""

import errno
import os
import stat
from typing import Final, NamedTuple

from runward.daemon.rundir.growing import RECOGNISED_BY, FileBytes, Lines, Position
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REGULAR, held, opened
from runward.daemon.rundir.run_directories import document_at
from runward.handlers.exchange.intent import LONGEST_LINE
from runward.handlers.layouts.native import RUN, RunSays, who_it_is


class IntentCursor(NamedTuple):
    """How far a file was read: which one it was, the bytes and lines, and the last bytes before (hex)."""

    identity: str | None = None
    offset: int = 0
    line: int = 0
    before: str = ""


class IntentLine(NamedTuple):
    """A line: its number from 1, and its text, or what is wrong with it."""

    number: int
    text: str
    complaint: str | None = None


class IntentsRead(NamedTuple):
    """What was read: the lines, and the cursor after them. `owner` is the uid of the directory's owner.

    If `more`, there are further lines. `problem` says why the file is read no further. `says` is what the run says at that
    moment of who it is.
    """

    lines: tuple[IntentLine, ...]
    cursor: IntentCursor
    owner: int
    more: bool = False
    problem: str | None = None
    says: RunSays = RunSays()


INTENTS: Final = "intents.jsonl"

MOST_BYTES: Final = 4 << 20
"""Bytes that are read at once, and those of one line."""

LONGEST_UNFINISHED: Final = 64 << 20
"""Bytes of a line that are read to find its end: it may be a hole that is larger than any disk."""

_CHUNK: Final = 1 << 18

_REWRITTEN: Final = "was rewritten or truncated: it is not read further, only appended lines count"

_ENDLESS: Final = f"has a line that is longer than {LONGEST_UNFINISHED >> 20} MiB: it is not read further"


def has_intents(directory: str) -> bool:
    """Whether something of this name is in the run directory."""
    return os.path.lexists(f"{directory}/{INTENTS}")


def read_intents(directory: str, cursor: IntentCursor, most: int, is_over: bool) -> IntentsRead | None:
    """Up to `most` lines after the cursor; None if there is no file. Raises `OSError` if it can't be read now.

    A last line without a newline counts once the run `is_over`. Reading stops if the file changed before the cursor.
    Another file in its place that begins with the same lines is read on.
    """
    try:
        with opened(directory, DIRECTORY) as within:
            owner = os.fstat(within).st_uid
            says = who_it_is(document_at(within, RUN))

            def refused(why: str) -> IntentsRead:
                return IntentsRead((), cursor, owner, problem=why, says=says)

            try:
                descriptor = os.open(INTENTS, REGULAR, dir_fd=within)
            except OSError as error:
                if error.errno == LINK:
                    return refused("is a link, which is not followed")
                if error.errno == errno.ENXIO:
                    return refused("is not a regular file")
                if error.errno in ABSENT and cursor.line:
                    return refused("was taken away")
                raise
            with held(descriptor):
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    return refused("is not a regular file")
                now = f"{status.st_dev}:{status.st_ino}"
                # The inode doesn't count here: some programs append by replacing the file.
                if status.st_size < cursor.offset or _before(descriptor, cursor.offset) != cursor.before:
                    return refused(_REWRITTEN)
                read = _read(descriptor, cursor._replace(identity=now), most, is_over, owner)
                return refused(_ENDLESS) if read is None else read._replace(says=says)
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise


def _read(descriptor: int, cursor: IntentCursor, most: int, is_over: bool, owner: int) -> IntentsRead | None:
    """The next lines; None if the first of them has no end within `LONGEST_UNFINISHED`."""
    position = Position(cursor.offset, cursor.line)
    reader = Lines(FileBytes(descriptor, position.offset), LONGEST_LINE, position)
    lines: list[IntentLine] = []
    more = False
    while not more:
        whole = reader.read(_CHUNK)
        if whole is None:
            if is_over and reader.length:
                lines.append(_line(position.lines + 1, reader.unfinished, reader.is_too_long))
                position = Position(reader.position.offset + reader.length, position.lines + 1)
            break
        taken = whole.contents[: most - len(lines)]
        lines += [_line(whole.number + i, each, i in whole.cut) for i, each in enumerate(taken)]
        position = whole.position_after(len(taken))
        more = len(lines) == most or (bool(lines) and reader.length > MOST_BYTES)
        if not more and reader.length > LONGEST_UNFINISHED:
            return None
    after = cursor._replace(
        offset=position.offset, line=position.lines, before=_before(descriptor, position.offset)
    )
    return IntentsRead(tuple(lines), after, owner, more)


def _before(descriptor: int, offset: int) -> str:
    start = max(0, offset - RECOGNISED_BY)
    return os.pread(descriptor, offset - start, start).hex()


def _line(number: int, content: bytes, is_too_long: bool) -> IntentLine:
    if is_too_long:
        return IntentLine(number, "", f"the line is longer than {LONGEST_LINE >> 20} MiB")
    try:
        return IntentLine(number, content.decode())
    except UnicodeDecodeError as error:
        return IntentLine(number, "", f"the line is not UTF-8 (byte {error.start})")
