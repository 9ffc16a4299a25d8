"""The parts of a bundle: written under temporary names, and renamed when it is recorded that they are Runward's.

The directory of a native run belongs to the run, which may have put anything under our names. What is there and isn't
ours is kept under another name. Nothing here follows a link.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from runward.daemon.disk.durable import sync_directory
from runward.daemon.faults import point
from runward.daemon.ports.files import Gone, PartMissing, PartsPlaced
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REFUSED, REGULAR, opened, unreadable
from runward.daemon.rundir.parts_standing import is_part
from runward.handlers.model.bundle import NoDraft, Part
from runward.handlers.model.unreadable import Unreadable

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTING: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHUNK: Final = 1 << 20
_WRITTEN: Final = 1 << 18
"""Bytes that are hashed and written together."""
_ASIDE: Final = ".before"
_MOST_ASIDE: Final = 100
_LISTED: Final = 10_000


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


def write_part(directory: str, name: str, chunks: Iterable[bytes]) -> Part | Unreadable | NoDraft | Gone:
    """Write the joined `chunks` under a temporary name in this directory, and sync it.

    An exception from `chunks` propagates, and then nothing is left.
    """
    try:
        descriptor = os.open(directory, DIRECTORY)
    except OSError as error:
        return _no_place(error)
    try:
        temporary = f".{name}.{os.urandom(6).hex()}.tmp"
        try:
            file = os.open(temporary, _NEW, 0o600, dir_fd=descriptor)
        except OSError as error:
            return _refused(error)
        try:
            size, digest = _write(file, chunks)
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
    finally:
        os.close(descriptor)


def place_parts(
    directory: str, parts: Sequence[Part]
) -> PartsPlaced | PartMissing | Unreadable | NoDraft | Gone:
    """Rename each part to its final name; anything else with that name is kept aside. Safe to repeat.

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
        with opened(".", _LISTING, descriptor) as listing:
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
            with opened(".", _LISTING, descriptor) as listing:
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
        with opened(directory, _LISTING) as listing:
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
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
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
    with opened(".", _LISTING, directory) as listing, os.scandir(listing) as entries:
        return [entry.name for _, entry in zip(range(_LISTED), entries, strict=False)]


def _is_temporary(name: str, part: str) -> bool:
    """Whether a name is one that `write_part` gives."""
    return name.startswith(f".{part}.") and name.endswith(".tmp")


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
