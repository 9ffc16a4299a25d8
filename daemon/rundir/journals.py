"""Appending Runward's own lines to a session's journal: each exactly once, and in order.

Each line is one write with O_APPEND, under a lock on the file. The epoch is read inside the lock, so a daemon that was
frozen and woke up after its successor took over writes nothing. Several lines are written under one lock: as long as it
is held, no successor writes either. A line that may have been written before a crash, or
whose sync failed, is looked for first and rewritten at its own place. What a crash or a full disk tore off is
completed. Foreign bytes are never touched: a foreign torn line is closed off with a newline, and only when the run is
over.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.daemon.disk.epoch import check_epoch
from runward.daemon.faults import point
from runward.daemon.rundir.growing import data_after, is_empty, whole_lines
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, REFUSED, held
from runward.handlers.foreign_json import read_json
from runward.handlers.journal.place import ADDED_FIELDS

Journal: TypeAlias = tuple[str, str]
"""A run's directory and the name of the journal in it."""


class StandingLines(NamedTuple):
    """Lines of Runward's that were written to a journal and synced, as the store remembers them.

    `row` is their number in the store; `places` as in `Appended`.
    """

    row: int
    content: bytes
    offset: int
    places: tuple[tuple[int, int], ...] = ()


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


APPEND: Final = (
    os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
)
MANY: Final = 64
"""For more files than this, their whole file system is synced instead of each of them."""

CLOSING: Final = b" \n"
"""What closes off a torn line. The space identifies it, even after a crash."""

_CHUNK: Final = 1 << 20


def append(
    lines: Sequence[JournalLine], epoch: int, current_epoch: Callable[[], int]
) -> list[Appended | NotAppended | NotFirst]:
    """Make sure that these lines of one journal are in it, in order, up to the first one that can't be written.

    Raises `EpochPassed`. Any other failure is part of the answer.
    """
    path, name = lines[0].directory, lines[0].name
    try:
        directory = os.open(path, DIRECTORY)
    except OSError as error:
        gone = error.errno in ABSENT or error.errno == errno.ELOOP
        return [NotAppended(error.strerror or str(error), gone and os.path.isdir(os.path.dirname(path)))]
    with held(directory):
        try:
            descriptor = os.open(name, APPEND, 0o600, dir_fd=directory)
        except OSError as error:
            for_good = error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO)
            return [NotAppended(f"{name}: {error.strerror}", for_good)]
        try:
            _lock(descriptor, epoch, current_epoch)
            return _all(descriptor, lines)
        except BlockingIOError:
            return [NotAppended("another writer has its lock")]
        except OSError as error:
            return [NotAppended(f"{name}: {error.strerror}")]
        finally:
            os.close(descriptor)


def _lock(descriptor: int, epoch: int, current_epoch: Callable[[], int]) -> None:
    """Lock the file, and read the epoch inside the lock. Raises `EpochPassed` and `OSError`."""
    # Without waiting: a process that holds the lock of one journal must not delay the lines of all others.
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Inside the lock. A daemon that was frozen between the check and the write would otherwise append after its successor.
    check_epoch(epoch, current_epoch())


def _all(descriptor: int, lines: Sequence[JournalLine]) -> list[Appended | NotAppended | NotFirst]:
    """Append the lines to the locked file, up to the first one that can't be written."""
    results: list[Appended | NotAppended | NotFirst] = []
    for line in lines:
        try:
            results.append(_one(descriptor, line))
        except OSError as error:
            results.append(NotAppended(f"{line.name}: {error.strerror}"))
        if not isinstance(results[-1], Appended):
            break
    return results


def _one(descriptor: int, line: JournalLine) -> Appended | NotAppended | NotFirst:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return NotAppended(f"{line.name} is not a regular file", for_good=True)
    # A run may link any file of its owner here, and have us write into it.
    if status.st_nlink > 1:
        return NotAppended(f"{line.name} is a hard link: other names lead to the same file", for_good=True)
    if line.only_first and status.st_size > 0:
        return NotFirst()
    if line.known is not None:
        stands = as_they_stand(descriptor, status.st_size, line.content, line.known)
        if stands is not None:
            result = _complete(descriptor, line._replace(content=stands), status.st_size)
            if isinstance(result, Appended) and stands != line.content:
                return result._replace(adopted=stands)
            return result
    if line.check:
        return _complete(descriptor, line, status.st_size)
    return _append(descriptor, line.content, status.st_size, line.live)


def _append(descriptor: int, content: bytes, size: int, live: bool) -> Appended | NotAppended:
    """Write `content` as whole lines after the existing content."""
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    if not torn:
        return _write(descriptor, content, size)
    if live:
        return NotAppended("the run is in the middle of a line")
    return _write(descriptor, CLOSING + content, size, len(CLOSING))


def _complete(descriptor: int, line: JournalLine, size: int) -> Appended | NotAppended:
    """Write those of the lines that aren't there yet; each may be there or torn."""
    # Line by line, because a write that was torn between two lines may have been followed by the run's own. If the run's
    # torn bytes ran into a line although we checked, only that line is written again: one line out of order is better
    # than others twice.
    lines = line.content.splitlines(keepends=True)
    offsets = [find(descriptor, each, size) for each in lines]
    for each, offset in zip(lines, offsets, strict=True):
        if offset >= 0:
            _write_again(descriptor, each, offset)
    missing = [each for each, offset in zip(lines, offsets, strict=True) if offset < 0]
    if not missing:
        return _standing(
            lines, offsets, Appended(0, already=True, closed=_closed_before(descriptor, offsets[0]))
        )
    end = max(offset + len(each) if offset >= 0 else 0 for each, offset in zip(lines, offsets, strict=True))
    owed = b"".join(missing)
    begun = _begun(descriptor, missing[0], end, size)
    if begun:
        _write_again(descriptor, owed[:begun], size - begun)
        result = _write(descriptor, owed[begun:], size, -begun)
    else:
        result = _append(descriptor, owed, size, line.live)
    return _standing(lines, offsets, result) if isinstance(result, Appended) else result


def _standing(lines: Sequence[bytes], offsets: Sequence[int], written: Appended) -> Appended:
    """Where all the lines are: each where it was found, or one after another if they were `written`."""
    pieces: list[tuple[int, int]] = []
    following = written.offset
    for line, offset in zip(lines, offsets, strict=True):
        if offset < 0:
            offset, following = following, following + len(line)
        if pieces and sum(pieces[-1]) == offset:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + len(line))
        else:
            pieces.append((offset, len(line)))
    return written._replace(offset=pieces[0][0], places=tuple(pieces) if len(pieces) > 1 else ())


def _write(descriptor: int, content: bytes, size: int, line_at: int = 0) -> Appended | NotAppended:
    """One write at the end of what was `size` bytes; our line begins `line_at` bytes from there."""
    point("journal.append.before")
    # One call: with O_APPEND, nothing that the run appends at the same time gets between our bytes.
    written = os.write(descriptor, content)
    point("journal.append.after")
    if written != len(content):
        return NotAppended("no space left for the whole line")  # the next try completes it, because it checks
    # The run takes no lock, so it may have appended since `size` was read. Then our bytes are further on, and perhaps in
    # the middle of a line of its own: such a line is written again.
    start = os.lseek(descriptor, 0, os.SEEK_CUR) - written
    if start != size and (line_at < 0 or (line_at == 0 and not _after_newline(descriptor, start))):
        return NotAppended("the run wrote in the middle of it")
    offset = start + line_at
    return Appended(offset, closed=_closed_before(descriptor, offset))


def _write_again(descriptor: int, line: bytes, offset: int) -> None:
    """Overwrite our own line with itself, so that the next sync really writes it."""
    # The cache may show what the disk refused: after a failed sync its pages count as written (fsyncgate).
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND)  # with it, Linux appends whatever the offset
    try:
        if os.pwrite(descriptor, line, offset) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)


def find(descriptor: int, line: bytes, size: int) -> int:
    """The offset of `line`, as a whole line, in the first `size` bytes, or -1; read in overlapping pieces."""
    position, overlap = 0, len(line) - 1
    while position < size:
        piece = os.pread(descriptor, _CHUNK + overlap, position)
        index = piece.find(line)
        while index >= 0:
            if position + index == 0 or _after_newline(descriptor, position + index):
                return position + index
            index = piece.find(line, index + 1)
        if len(piece) <= overlap:
            return -1
        position += _CHUNK
        if is_empty(piece):
            position = data_after(descriptor, position)
    return -1


def _after_newline(descriptor: int, offset: int) -> bool:
    return os.pread(descriptor, 1, offset - 1) == b"\n"


def _begun(descriptor: int, line: bytes, start: int, size: int) -> int:
    """How many bytes of a line that is nowhere whole are at the very end of the file, as its last line."""
    tail = os.pread(descriptor, min(size - start, len(line) - 1), max(start, size - len(line) + 1))
    last = tail[tail.rfind(b"\n") + 1 :]
    begins = size - len(last)
    if not line.startswith(last) or (begins > 0 and not _after_newline(descriptor, begins)):
        return 0
    return len(last)


def _closed_before(descriptor: int, offset: int) -> int:
    """The bytes of the foreign torn line that was closed off before our line at `offset`; 0 if there was none."""
    if offset < len(CLOSING) or os.pread(descriptor, len(CLOSING), offset - len(CLOSING)) != CLOSING:
        return 0
    begin = max(0, offset - _CHUNK)
    piece = os.pread(descriptor, offset - begin, begin)
    torn = piece[: -len(CLOSING)]
    return len(torn) - (torn.rfind(b"\n") + 1)


def sync(journals: Sequence[Journal], sync_file_system: Callable[[int], None]) -> dict[Journal, str]:
    """Make the lines of these journals survive a power cut; returns those that may not, and why.

    A journal whose run directory was removed needs no sync; one whose root is unavailable may return. What the disk
    refused once must be written again, because the next sync may only say that nothing is left to do.
    """
    refused: dict[Journal, str] = {}
    if len(journals) > MANY:
        by_root: dict[str, list[Journal]] = {}
        for journal in journals:
            by_root.setdefault(os.path.dirname(journal[0]), []).append(journal)
        for root, below in by_root.items():
            why = _sync_whole(root, sync_file_system)
            if why is not None:
                refused.update(dict.fromkeys(below, why))
        return refused
    for directory, name in journals:
        why = _sync_one(directory, name, sync_file_system)
        if why is not None:
            refused[directory, name] = why
    return refused


def _sync_one(directory: str, name: str, sync_file_system: Callable[[int], None]) -> str | None:
    root = os.path.dirname(directory)
    try:
        descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in REFUSED:
            return _sync_whole(root, sync_file_system)
        if error.errno in ABSENT and not os.path.isdir(root):
            return "its root is missing"
        return None if error.errno in (*ABSENT, errno.ELOOP, errno.ENXIO) else error.strerror
    try:
        # What is no longer a regular file has no lines of ours, and may not support sync.
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)
    except OSError as error:
        return f"not synced: {error.strerror}"
    finally:
        os.close(descriptor)
    return None


def _sync_whole(root: str, sync_file_system: Callable[[int], None]) -> str | None:
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return "its root is missing"
    except OSError as error:
        return f"its root can't be synced: {error.strerror}"
    try:
        sync_file_system(descriptor)
    except OSError as error:
        return f"its file system isn't synced: {error.strerror}"
    finally:
        os.close(descriptor)
    return None


# After a restore: finding journal lines that already state what must be written, under another hash. A restored store
# lacks what was judged after its backup, so the daemon judges those runs again. Their journals already contain the lines:
# the same facts, with the hashes of events that no longer exist. Such a line is adopted where it is, so that no line is
# written twice. Each line is adopted once, and never one that the store already knows.
_NOTHING: Final = frozenset[str]()
_HASH: Final = frozenset({"hash"})
_HOW_LATE: Final = frozenset({"hash", "ts", "t", "basis", "checked_at", "invocation_id"})
"""Fields that may also differ if the same fact was learned later: when it was noticed, and that the contract was."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")
"""What a hash looks like. Somebody changed any other value, so such a line doesn't count as Runward's."""

_LONGEST: Final = 1 << 20
"""The number of bytes of a line that are read; Runward's lines are shorter."""


class _Candidate(NamedTuple):
    line: bytes
    value: Mapping[str, JsonValue]


def as_they_stand(descriptor: int, size: int, content: bytes, known: Sequence[StandingLines]) -> bytes | None:
    """The existing counterparts of the lines of `content` in the first `size` bytes; None if there are none.

    `known` are the lines in this journal that the store knows. Raises `OSError`.
    """
    taken = {each.offset for each in each_line(known)}
    left = list(_candidates(descriptor, min(size, SEARCHED), taken))
    count = len(left)
    stands = b"".join(_adopted(line, left) for line in content.splitlines(keepends=True)) if left else b""
    return stands if len(left) < count else None


def _adopted(line: bytes, left: list[_Candidate]) -> bytes:
    """The existing counterpart of `line`, which is removed from `left`; `line` itself if there is none."""
    ours = read_json(line)
    if not isinstance(ours, dict):
        return line
    for ignored in (_NOTHING, _HASH, _HOW_LATE):
        for place, candidate in enumerate(left):
            lacking = ADDED_FIELDS - candidate.value.keys()
            if _without(candidate.value, ignored) == _without(ours, ignored | lacking):
                del left[place]
                return candidate.line
    return line


def _without(value: Mapping[str, JsonValue], ignored: frozenset[str]) -> dict[str, JsonValue]:
    return {key: each for key, each in value.items() if key not in ignored}


def _candidates(descriptor: int, size: int, taken: set[int]) -> Iterator[_Candidate]:
    """The whole lines with a hash like that of Runward's lines, except those at the places that are `taken`."""
    # A crash may have lost only the last newline. Without this the line would be closed off, and repeated after it.
    for offset, line in whole_lines(descriptor, size, _LONGEST):
        if offset in taken or b'"hash":"' not in line:
            continue
        value = read_json(line)
        digest = value.get("hash") if isinstance(value, dict) else None
        if isinstance(value, dict) and isinstance(digest, str) and _DIGEST.fullmatch(digest):
            yield _Candidate(line, value)
