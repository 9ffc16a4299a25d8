"""The parts of a bundle: written under temporary names, and renamed when it is recorded that they are Runward's.

The directory of a native run belongs to the run, which may have put anything under our names. What is there and isn't
ours is kept under another name. Nothing here follows a link. The replay of a running session grows at its own place, and a
bundle that the daemon doesn't write can be made on demand.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.disk.durable import NEW, sync_directory, write_all
from runward.daemon.faults import point
from runward.daemon.rundir.call_reading import told_by
from runward.daemon.rundir.growing import whole_lines
from runward.daemon.rundir.opening import (
    ABSENT,
    DIRECTORY,
    LINK,
    LISTED,
    REFUSED,
    REGULAR,
    Gone,
    held,
    opened,
    unreadable,
)
from runward.daemon.rundir.parts_standing import is_part
from runward.handlers.bundle.parts import PARTS, RECEIPT, REPLAY, SUMMARY
from runward.handlers.calls import Told, by_time
from runward.handlers.model.bundle import BundleOrder, NoDraft
from runward.handlers.model.files import Unreadable
from runward.handlers.model.part import Part

if TYPE_CHECKING:
    from runward.handlers.bundle.replay import Replay


class ReplayStanding(NamedTuple):
    """The first `length` bytes of a file that may be Runward's replay, by their hash."""

    length: int
    sha256: str


class PartsPlaced(NamedTuple):
    """The parts of a bundle have their names. `aside` are the new names of what had those names before."""

    aside: tuple[str, ...] = ()


class PartMissing(NamedTuple):
    """A part of a bundle is neither in place nor under its temporary name."""

    name: str


class KeptAside(NamedTuple):
    """A file is not what was written to it. It is kept under this name; None if it no longer exists."""

    name: str | None


_CHUNK: Final = 1 << 20
_WRITTEN: Final = 1 << 18
"""Bytes that are hashed and written together."""
_ASIDE: Final = ".before"
_MOST_ASIDE: Final = 100
_MOST_LISTED: Final = 10_000


def clear_parts(directory: str, names: Sequence[str]) -> Unreadable | NoDraft | Gone | None:
    """Remove what an earlier try left under temporary names of these parts.

    The answer is `NoDraft` if something there would keep the parts from their names.
    """
    try:
        descriptor = os.open(directory, DIRECTORY)
    except OSError as error:
        return _no_place(error)
    try:
        for name in _names(descriptor):
            if any(_is_temporary(name, part) for part in names):
                _remove(descriptor, name)
        full = next(
            (name for name in names if _exists(descriptor, name) and not _aside_of(descriptor, name)), None
        )
        if full is not None:
            return NoDraft(
                f"{_MOST_ASIDE - 1} files of its directory are called {full}{_ASIDE}", is_place=True
            )
    except OSError as error:
        return _refused(error)
    finally:
        os.close(descriptor)
    return None


def write_part(
    directory: str, name: str, chunks: Iterable[bytes], *, is_synced: bool = True
) -> Part | Unreadable | NoDraft | Gone:
    """Write the joined `chunks` under a temporary name in this directory; it is durable if it `is_synced`.

    An exception from `chunks` propagates, and then nothing is left.
    """
    try:
        descriptor = os.open(directory, DIRECTORY)
    except OSError as error:
        return _no_place(error)
    with held(descriptor):
        temporary = f".{name}.{os.urandom(6).hex()}.tmp"
        try:
            file = os.open(temporary, NEW, 0o600, dir_fd=descriptor)
        except OSError as error:
            return _refused(error)
        try:
            size, digest = _write(file, chunks)
            # Before it is recorded, and gets its name: after a power cut, a file with the right name must not be
            # empty. The parts of many bundles are synced together.
            if is_synced:
                os.fsync(file)
        except OSError as error:
            _remove(descriptor, temporary)
            return _refused(error)
        except BaseException:
            _remove(descriptor, temporary)
            raise
        finally:
            os.close(file)
        return Part(name, size, digest, temporary)


def place_parts(
    directory: str, parts: Sequence[Part], *, is_synced: bool = True
) -> PartsPlaced | PartMissing | Unreadable | NoDraft | Gone:
    """Rename each part to its final name; anything else with that name is kept aside. Safe to repeat.

    The names are durable if the directory `is_synced`.
    The answer is `NoDraft` if the directory keeps the parts from their names.

    A file that the part begins with, such as a replay that grew while its session ran, is replaced without loss.
    """
    try:
        descriptor = os.open(directory, DIRECTORY)
    except OSError as error:
        return _no_place(error)
    try:
        aside: list[str] = []
        for part in parts:
            # An earlier try may have been killed after the rename, before it was recorded.
            if is_part(descriptor, part.name, part):
                _remove(descriptor, part.temporary)
                continue
            if not is_part(descriptor, part.temporary, part):
                return PartMissing(part.name)
            if not _is_beginning(descriptor, part):
                kept = keep_aside(descriptor, part.name)
                if kept is not None:
                    aside.append(kept)
            point("bundle.rename.before")
            os.rename(part.temporary, part.name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
            point("bundle.rename.after")
        with opened(".", LISTED, descriptor) as listing:
            # The names must survive a power cut before the store says that the parts have them. The directories of
            # many bundles are synced together; one that can't be opened for that refuses its parts.
            if is_synced:
                sync_directory(listing)
        return PartsPlaced(tuple(aside))
    except OSError as error:
        return _refused(error)
    finally:
        os.close(descriptor)


def missing_parts(directory: str, names: Sequence[str]) -> list[str] | Unreadable | Gone:
    """Which of these names don't exist in the directory."""
    try:
        descriptor = os.open(directory, DIRECTORY)
    except OSError as error:
        return _no_place(error)
    try:
        return [name for name in names if not _exists(descriptor, name)]
    except OSError as error:
        return unreadable(error)
    finally:
        os.close(descriptor)


def remove_parts(directory: str, names: Sequence[str]) -> Unreadable | None:
    """Remove parts for good. A missing one counts as removed."""
    try:
        with opened(directory, DIRECTORY) as descriptor:
            for name in names:
                _remove(descriptor, name)
            with opened(".", LISTED, descriptor) as listing:
                sync_directory(listing)
    except OSError as error:
        return None if error.errno in ABSENT else unreadable(error)
    return None


def copy_part(source: str, name: str, directory: str, plain: str) -> Part | Unreadable | NoDraft | Gone:
    """Copy the current part `name` of one directory into another one, under a temporary name for `plain`."""
    try:
        with opened(source, DIRECTORY) as within, opened(name, REGULAR, within) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return Unreadable(f"{name} is not a regular file")
            return write_part(directory, plain, _chunks(descriptor))
    except OSError as error:
        return unreadable(error)


def exists_otherwise(directory: str, parts: Sequence[Part]) -> list[str]:
    """The names of parts under which this directory has something else. Raises `OSError`."""
    with opened(directory, DIRECTORY) as descriptor:
        return [
            part.name
            for part in parts
            if _exists(descriptor, part.name) and not is_part(descriptor, part.name, part)
        ]


def put_over(directory: str, parts: Sequence[Part]) -> None:
    """Rename each part to its final name, replacing any file that has it. Raises `OSError`."""
    with opened(directory, DIRECTORY) as descriptor:
        for part in parts:
            os.rename(part.temporary, part.name, src_dir_fd=descriptor, dst_dir_fd=descriptor)


def replace_parts(directory: str, parts: Sequence[Part]) -> Unreadable | None:
    """Like `put_over`, for existing parts that Runward wrote, durably."""
    try:
        put_over(directory, parts)
        with opened(directory, LISTED) as listing:
            sync_directory(listing)
    except OSError as error:
        return unreadable(error)
    return None


def _chunks(descriptor: int) -> Iterator[bytes]:
    while piece := os.read(descriptor, _CHUNK):
        yield piece


def _no_place(error: OSError) -> Unreadable | Gone:
    """Why a directory can't be opened; one that was replaced by a link or a file counts as removed."""
    return Gone() if error.errno in ABSENT or error.errno == LINK else unreadable(error)


def _refused(error: OSError) -> Unreadable | NoDraft:
    """A full disk may have room again later; a directory that may not be written to usually stays so."""
    if error.errno == errno.EISDIR:
        return NoDraft(
            f"a directory has the name of a part that is being written: {error.filename}", is_place=True
        )
    if error.errno in REFUSED or error.errno == errno.EROFS:
        why = f"nothing can be written to its directory: {error.strerror}"
        return NoDraft(why, may_pass=True, is_place=True)
    return unreadable(error)


def _write(descriptor: int, chunks: Iterable[bytes]) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    for chunk in _gathered(chunks):
        digest.update(chunk)
        size += len(chunk)
        write_all(descriptor, chunk)
    return size, digest.hexdigest()


def _gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks joined into larger ones, so that there are few writes."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= _WRITTEN:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def keep_aside(directory: int, name: str) -> str | None:
    """Move aside what has this name; returns its new name, or None if nothing had the name."""
    if not _exists(directory, name):
        return None
    # A run that takes all these names while its bundle is put in place gains nothing by it.
    aside = _aside_of(directory, name) or f"{name}{_ASIDE}.{os.urandom(6).hex()}"
    os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
    return aside


def _aside_of(directory: int, name: str) -> str | None:
    """The first name that is free for what is kept aside; None if there are too many already."""
    names = (
        f"{name}{_ASIDE}" if number == 1 else f"{name}{_ASIDE}.{number}" for number in range(1, _MOST_ASIDE)
    )
    return next((each for each in names if not _exists(directory, each)), None)


def _is_beginning(directory: int, part: Part) -> bool:
    """Whether the part begins with the bytes of the file that has its name."""
    try:
        with (
            opened(part.name, REGULAR, directory) as shown,
            opened(part.temporary, REGULAR, directory) as whole,
        ):
            status = os.fstat(shown)
            if not stat.S_ISREG(status.st_mode) or status.st_size > part.size:
                return False
            at = 0
            while at < status.st_size and (piece := os.pread(shown, _CHUNK, at)):
                if os.pread(whole, len(piece), at) != piece:
                    return False
                at += len(piece)
            return at == status.st_size
    except OSError as error:
        if error.errno in ABSENT or error.errno in (LINK, errno.ENXIO, errno.EACCES):
            return False
        raise


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _names(directory: int) -> list[str]:
    with opened(".", LISTED, directory) as listing, os.scandir(listing) as entries:
        return [entry.name for _, entry in zip(range(_MOST_LISTED), entries, strict=False)]


def _is_temporary(name: str, part: str) -> bool:
    """Whether a name is one that `write_part` gives."""
    return name.startswith(f".{part}.") and name.endswith(".tmp")


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass


# The replay of a running session: its lines are a function of the session's files, and each has its fixed place. So writing
# them again changes nothing, no matter which daemon wrote them first. Foreign content is kept aside.
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
            with held(descriptor):
                if not _fits(descriptor, at, lines):
                    return KeptAside(keep_aside(within, name))
                point("replay.write.before")
                rest, position = memoryview(lines), at
                while rest:
                    written = os.pwrite(descriptor, rest, position)
                    rest, position = rest[written:], position + written
                point("replay.write.after")
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
    # A second link would lead our bytes into another file of the run.
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


class MadeBundle(NamedTuple):
    """A bundle made on demand, which is not part of a chain: its receipt names no earlier receipt.

    The parts under temporary names, and what is wrong with the session's files."""

    parts: tuple[Part, ...]
    problem: str | None


class CannotMake(Exception):
    """No bundle can be made; the message says why."""


def lines_on_demand(
    order: BundleOrder, actions: Iterable[Told], *, is_over: bool = True
) -> tuple["Replay", Iterator[bytes]]:
    """The replay according to the session's current files and its `actions`, and its lines."""
    from runward.handlers.bundle.replay import Replay  # only what makes bundles needs it

    replay = Replay(order)
    events = by_time(told_by(order.layout, order.path, _always), actions)
    return replay, replay.lines(events, is_over=is_over)


def make_on_demand(order: BundleOrder, actions: Iterable[Told], directory: str) -> MadeBundle:
    """Write the three parts into a directory, under temporary names. Raises `CannotMake`."""
    from runward.handlers.bundle.receipt import sealed
    from runward.handlers.bundle.replay import receipt_body, summary_of
    from runward.handlers.bundle.summary import summary_text

    clear_parts(directory, PARTS)
    replay, lines = lines_on_demand(order, actions)
    replayed = _part(write_part(directory, REPLAY, lines))
    summary = _part(write_part(directory, SUMMARY, [summary_text(summary_of(replay)).encode()]))
    body = receipt_body(replay, (replayed, summary), (REPLAY, SUMMARY))
    text = sealed(body, None, order.rules.canonical_form).text
    receipt = _part(write_part(directory, RECEIPT, [text]))
    return MadeBundle((replayed, summary, receipt), replay.problem)


def _part(written: Part | Unreadable | NoDraft | Gone) -> Part:
    if isinstance(written, Part):
        return written
    raise CannotMake("the directory is gone" if isinstance(written, Gone) else written.why)


def _always(count: int) -> bool:
    return True
