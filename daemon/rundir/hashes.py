"""Hashing the files that a contract names: whole, without leaving their root or blocking, even if they change.

Paths are resolved as for a verification, and the opened file is the one that is read. A file is read from its
descriptor up to its size at opening, so nobody can keep a reader busy by appending.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from runward.config.path_rule import names_in
from runward.daemon.rundir.growing import data_after
from runward.daemon.rundir.opening import REGULAR, Halted, held, unreadable
from runward.daemon.rundir.resolving import modified_ns, open_artifacts, refusal, resolve
from runward.handlers.model.files import MOST_GIB, FileFact, FileHash, RootHashes, Unreadable

CHUNK: Final = 8 << 20
"""Bytes that are read and hashed in one go, outside the interpreter's lock; a stop waits for at most one such piece.

After each the lock has to be had again, which takes up to 5 ms alongside verdicts: of 1 MiB each, 512 MB took half as long again.
"""

MOST: Final = MOST_GIB << 30
"""Bytes that are hashed of all the files of one call, holes included: seconds to a minute of one core."""

_UNREADABLE: Final = FileHash("unreadable")
_CHANGING: Final = FileHash("changing")
_ZEROS: Final = memoryview(bytes(CHUNK))


def file_hashes(
    root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool], most: int | None = None
) -> RootHashes | Unreadable:
    """Hash each of `paths`; `root` and `within` are those of `artifact_facts`.

    A file that would exceed `most` bytes (`MOST`), together with the files before it, is `too_large` and is not read.

    `go_on` gets the number of bytes read since the last call, and says whether to continue. Raises `Halted` if it says
    no.
    """
    try:
        descriptor = open_artifacts(root, within)
    except OSError as error:
        return unreadable(error)
    if descriptor is None:
        return RootHashes(exists=False)
    with held(descriptor):
        left = MOST if most is None else most

        def counted(count: int) -> bool:
            nonlocal left
            left -= count  # counted even if the file changes meanwhile and gets no hash
            return go_on(count)

        return RootHashes(True, tuple([_hash(descriptor, path, left, counted) for path in paths]))


def _hash(root: int, path: str, most: int, go_on: Callable[[int], bool]) -> FileHash:
    try:
        descriptor = _open(root, names_in(path))
        if isinstance(descriptor, FileHash):
            return descriptor
        with held(descriptor):
            return digest(descriptor, most, go_on)
    except OSError:
        return _UNREADABLE


def _open(root: int, parts: list[str]) -> int | FileHash:
    """A descriptor to read the file from, or why there is none. Raises `OSError` if the machine is at fault."""
    try:
        target = resolve(root, parts)
        if isinstance(target, FileFact):
            return _without(target)
        try:
            if not stat.S_ISREG(target.status.st_mode):
                return FileHash("not_regular")
            return os.open(target.name, REGULAR, dir_fd=target.directory)
        finally:
            os.close(target.directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return _CHANGING  # a link took its place since it was looked at
        return _without(refusal(error))


def _without(fact: FileFact) -> FileHash:
    """The fact for a file that isn't read, with the reason."""
    if fact.state == "file" or fact.state == "unfit":
        return FileHash("unreadable")
    return FileHash("absent" if fact.state == "excused" else fact.state)


def digest(descriptor: int, most: int, go_on: Callable[[int], bool]) -> FileHash:
    """The hash of an open file, unless it has more than `most` bytes. Raises `Halted` and `OSError`."""
    before = os.fstat(descriptor)
    size, modified = before.st_size, modified_ns(before)
    if not stat.S_ISREG(before.st_mode):
        return FileHash("not_regular")
    if size == 0:
        return FileHash("empty", 0, modified)
    if size > most:
        return FileHash("too_large", size, modified)
    content, position, count = sha256(), 0, 0
    buffer = memoryview(bytearray(min(size, CHUNK)))
    data = data_after(descriptor, 0)
    while position < size:
        if not go_on(count):
            raise Halted
        if position < data:  # a hole: zeros, and nothing to read
            count = min(data - position, size - position, CHUNK)
            content.update(_ZEROS[:count])
        else:
            count = os.preadv(descriptor, [buffer[: min(size - position, CHUNK)]], position)
            if count == 0:
                return _CHANGING  # it was cut short
            content.update(buffer[:count])
            if buffer[count - 1] == 0:
                data = data_after(descriptor, position + count)
        position += count
    go_on(count)
    # What was written while it was read would give a hash that the file never had.
    after = os.fstat(descriptor)
    if (after.st_size, after.st_mtime_ns) != (size, before.st_mtime_ns):
        return _CHANGING
    return FileHash("hashed", size, modified, content.hexdigest())
