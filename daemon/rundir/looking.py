"""Looking into run directories: listing a root, and reading the documents that are new.

Only regular files are opened, without following links or blocking, and at most `MAXIMUM_DOCUMENT` bytes of one are
read.
"""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Final

from runward.daemon.ports.files import Gone, Listing, Mark, Sight, Standing
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, REGULAR, unreadable
from runward.handlers.model.sessions import Document, Signature
from runward.handlers.model.unreadable import Unreadable

MAXIMUM_DOCUMENT: Final = 1 << 20
"""Bytes of the largest document that is read."""

_UNREACHABLE: Final[Signature] = (0, 0, 0)


def signature(status: os.stat_result) -> Signature:
    """Distinguishes this version of a file from the next."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def standing(path: str) -> Standing | None:
    """Which directory is at `path` now, and whether it may be read; None if none can be reached."""
    found = identity(path)
    return None if found is None else Standing(found, os.access(path, os.R_OK | os.X_OK))


def identity(path: str) -> str | None:
    """Which directory is at `path` now; None if none can be reached."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_dev}:{status.st_ino}"


def list_root(root: str) -> Listing | Unreadable | Gone:
    """The directories in `root`. Links, and names that begin with a dot, are not runs."""
    directories: dict[str, Signature] = {}
    unusable: list[str] = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                    continue
                if not _storable(name):
                    unusable.append(name.encode("utf-8", "backslashreplace").decode())
                    continue
                try:
                    directories[name] = signature(entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue  # gone since the listing began
    except OSError as error:
        return Gone() if error.errno in ABSENT else unreadable(error)
    return Listing(directories, tuple(unusable))


def directory_signature(root: str, directory: str) -> Signature | None:
    """The signature of a run directory, as `list_root` gives it; None if there is none or it can't be reached."""
    try:
        status = os.stat(f"{root}/{directory}", follow_symlinks=False)
    except OSError:
        return None
    return signature(status) if stat.S_ISDIR(status.st_mode) else None


def _storable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def look(
    root: str, directory: str, names: Sequence[str], known: Mapping[str, Signature]
) -> Sight | Unreadable | Gone:
    """The wanted documents of a run directory, read if they differ from what is known."""
    try:
        descriptor = os.open(f"{root}/{directory}", DIRECTORY)
    except OSError as error:
        return _no_directory(root, error)
    try:
        # The directory first: what changes after this moment changes its signature again.
        own = signature(os.fstat(descriptor))
        signatures: list[tuple[str, Signature]] = []
        documents: list[Document] = []
        for name in names:
            found = document_at(descriptor, name, known.get(name))
            if found is not None:
                signatures.append((name, found.signature))
                if found.signature != known.get(name):
                    documents.append(found)
        return Sight(own, tuple(signatures), tuple(documents))
    except OSError as error:
        return unreadable(error)
    finally:
        os.close(descriptor)


def unchanged(
    root: str, names: Sequence[str], known: Mapping[str, Mapping[str, Signature]]
) -> frozenset[str]:
    """Those of the known run directories whose wanted documents are present or absent exactly as known."""
    return frozenset(
        directory
        for directory, signatures in known.items()
        if all(signature_at(f"{root}/{directory}/{name}") == signatures.get(name) for name in names)
    )


def mark_of(directory: str, names: Sequence[str]) -> Mark | None:
    """Distinguishes this state of a directory and of the named files from the next; None if it can't be reached."""
    own = signature_at(directory)
    if own is None or own == _UNREACHABLE:
        return None
    found = ((name, signature_at(f"{directory}/{name}")) for name in names)
    return Mark(own, tuple((name, there) for name, there in found if there is not None))


def is_as_marked(directory: str, mark: Mark) -> bool:
    """Whether no entry of the directory came or went since, and none of the marked files changed."""
    return signature_at(directory) == mark.directory and all(
        signature_at(f"{directory}/{name}") == there for name, there in mark.files
    )


def signature_at(path: str) -> Signature | None:
    """The signature of what is at `path`, None if there is nothing. What can't be reached is like no known one."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError as error:
        return None if error.errno == errno.ENOENT else _UNREACHABLE
    return status.st_ino, status.st_size, status.st_mtime_ns


def _no_directory(root: str, error: OSError) -> Unreadable | Gone:
    return unreadable(error) if error.errno not in ABSENT and error.errno != errno.ELOOP else gone(root)


def gone(root: str) -> Gone | Unreadable:
    """What a missing file means: it counts as removed only if its root can be reached."""
    try:
        os.stat(root)
    except OSError as missing:
        return Unreadable(f"the root can't be reached: {missing.strerror}")
    return Gone()


def document_at(within: int, name: str, known: Signature | None = None) -> Document | None:
    """The document `name` of an open directory as it is now, without its content if it is the known one.

    None if there is none. Raises `OSError`.
    """
    try:
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return None
    found = signature(status)
    if found == known:
        return Document(name, found, 0.0)
    if not stat.S_ISREG(status.st_mode):
        return Document(name, found, status.st_mtime, problem="is not a regular file")
    try:
        descriptor = os.open(name, REGULAR, dir_fd=within)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return Document(name, found, status.st_mtime, problem="is not a regular file")
        if error.errno in (errno.EACCES, errno.EPERM):
            return Document(name, found, status.st_mtime, problem="can't be read: permission denied")
        raise
    try:
        status = os.fstat(descriptor)
        found = signature(status)
        if not stat.S_ISREG(status.st_mode):
            return Document(name, found, status.st_mtime, problem="is not a regular file")
        if status.st_size > MAXIMUM_DOCUMENT:
            problem = f"is larger than {MAXIMUM_DOCUMENT} bytes"
            return Document(name, found, status.st_mtime, problem=problem)
        content = os.read(descriptor, status.st_size + 1)  # a larger buffer costs more than the read
        return Document(name, found, status.st_mtime, content, changed_ns=status.st_ctime_ns)
    finally:
        os.close(descriptor)
