"""The replay of a running session: what its file contains, and writing further lines at their place.

Its lines are a function of the session's files, and each has its fixed place. So writing them again changes nothing, no
matter which daemon wrote them first. Foreign content is kept aside. Nothing here follows a link.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from runward.daemon.faults import point
from runward.daemon.ports.files import Gone, KeptAside, ReplayStanding
from runward.daemon.rundir.bundle_parts import keep_aside
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REGULAR, opened, unreadable
from runward.daemon.rundir.tailing import whole_lines
from runward.handlers.model.unreadable import Unreadable

_CHUNK: Final = 1 << 20
_WRITING: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def standing(directory: str, name: str, most: int) -> ReplayStanding:
    """What the file of this name contains, at most `most` bytes of it: nothing if that isn't a file.

    Raises `OSError`.
    """
    digest, at = hashlib.sha256(), 0
    for piece in _pieces(directory, name, most):
        digest.update(piece)
        at += len(piece)
    return ReplayStanding(at, digest.hexdigest())


def shown_lines(directory: str, name: str, length: int, sha256: str) -> Iterator[bytes] | None:
    """The lines in the first `length` bytes of this file; None if they aren't those with this hash.

    Raises `OSError`.
    """
    if standing(directory, name, length) != ReplayStanding(length, sha256):
        return None
    return _lines(directory, name, length)


def _lines(directory: str, name: str, length: int) -> Iterator[bytes]:
    with opened(directory, DIRECTORY) as within, opened(name, REGULAR, within) as descriptor:
        for _, line in whole_lines(descriptor, length, length):
            yield line


def write_lines(directory: str, name: str, at: int, lines: bytes) -> KeptAside | Unreadable | Gone | None:
    """Put these lines at their place, the byte `at`.

    If the file changed since the lines before these were written, it is kept aside, and nothing is written.
    """
    try:
        with opened(directory, DIRECTORY) as within:
            try:
                descriptor = _file(within, name, is_new=at == 0)
            except OSError as error:
                if error.errno in ABSENT and at:
                    return KeptAside(None)
                if error.errno != LINK and not isinstance(error, FileExistsError | IsADirectoryError):
                    raise
                return KeptAside(keep_aside(within, name))
            try:
                if not _fits(descriptor, at, lines):
                    return KeptAside(keep_aside(within, name))
                point("replay.write.before")
                rest, position = memoryview(lines), at
                while rest:
                    written = os.pwrite(descriptor, rest, position)
                    rest, position = rest[written:], position + written
                point("replay.write.after")
            finally:
                os.close(descriptor)
    except OSError as error:
        return Gone() if error.errno in ABSENT else unreadable(error)
    return None


def _file(within: int, name: str, *, is_new: bool) -> int:
    try:
        return os.open(name, _WRITING, dir_fd=within)
    except FileNotFoundError:
        if not is_new:
            raise
    return os.open(name, _WRITING | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=within)


def _fits(descriptor: int, at: int, lines: bytes) -> bool:
    """Whether the file goes up to `at`, and has nothing after that but these lines, or a beginning of them."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size < at:
        return False
    there = os.pread(descriptor, len(lines), at)
    return lines.startswith(there)


def _pieces(directory: str, name: str, most: int) -> Iterator[bytes]:
    try:
        with opened(directory, DIRECTORY) as within, opened(name, REGULAR, within) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            at = 0
            while at < most and (piece := os.pread(descriptor, min(_CHUNK, most - at), at)):
                at += len(piece)
                yield piece
    except OSError as error:
        if error.errno not in ABSENT and error.errno != LINK:
            raise
