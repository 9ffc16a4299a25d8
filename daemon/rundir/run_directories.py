"""Looking into run directories: listing a root, reading the documents that are new, and when the files last changed.

Only regular files are opened, without following links or blocking, and at most `MAXIMUM_DOCUMENT` bytes of one are
read.
"""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import is_text
from runward.daemon.disk.durable import write_whole
from runward.daemon.rundir.changes import MOST_ENTRIES
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REGULAR, Gone, held, unreadable
from runward.handlers.bundle.parts import OURS, is_part_or_temporary
from runward.handlers.layouts import native
from runward.handlers.model.files import Signature, Unreadable, signature_of
from runward.handlers.model.processes import RunPlace
from runward.handlers.model.sessions import Document, LastChange


class Standing(NamedTuple):
    """The directory at a path: which one it is, by device and inode, and whether it may be read."""

    identity: str
    readable: bool


class Sight(NamedTuple):
    """What a look into a run directory found.

    `signatures` are those of every wanted document that is there, `documents` the ones that differ
    from what was known. `directory` is the directory's own signature, to skip a look next time.
    """

    directory: Signature
    signatures: tuple[tuple[str, Signature], ...]
    documents: tuple[Document, ...]


class Listing(NamedTuple):
    """The run directories inside a root, by name, and the names that can't be watched.

    In a root of another tool these are places: its sessions' logs, or directories. `unlisted` are the directories in it
    that couldn't be looked into: what was known there is not gone. `native` are our own runs among them, which need a
    root of their own. `problems` are those of what couldn't be looked into, in words. `left_out` are places that are there, and
    whose signature nobody asked for.
    """

    directories: Mapping[str, Signature]
    unusable: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()


MAXIMUM_DOCUMENT: Final = 1 << 20
"""Bytes of the largest document that is read."""

UNREACHABLE: Final = Signature(0, 0, 0)
"""Of what is there or not: nobody could look. No file has it."""


def standing(path: str) -> Standing | None:
    """Which directory is at `path` now, and whether it may be read; None if none can be reached."""
    current = identity(path)
    return None if current is None else Standing(current, os.access(path, os.R_OK | os.X_OK))


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
                if not is_text(name):
                    unusable.append(name.encode("utf-8", "backslashreplace").decode())
                    continue
                try:
                    directories[name] = signature_of(entry.stat(follow_symlinks=False))
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
    return signature_of(status) if stat.S_ISDIR(status.st_mode) else None


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
        own = signature_of(os.fstat(descriptor))
        signatures: list[tuple[str, Signature]] = []
        documents: list[Document] = []
        for name in names:
            document = document_at(descriptor, name, known.get(name))
            if document is not None:
                signatures.append((name, document.signature))
                if document.signature != known.get(name):
                    documents.append(document)
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
        if _is_unchanged(f"{root}/{directory}/", names, signatures)
    )


def _is_unchanged(directory: str, names: Sequence[str], signatures: Mapping[str, Signature]) -> bool:
    # A start asks this of each run that it knows, so it is `signature_at` without its calls.
    for name in names:
        try:
            status = os.stat(directory + name, follow_symlinks=False)
        except FileNotFoundError:
            if name in signatures:
                return False
        except OSError:
            return False
        else:
            if signatures.get(name) != signature_of(status):
                return False
    return True


def signature_at(path: str) -> Signature | None:
    """The signature of what is at `path`, None if there is nothing. What can't be reached is like no known one."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError as error:
        return None if error.errno == errno.ENOENT else UNREACHABLE
    return signature_of(status)


def _no_directory(root: str, error: OSError) -> Unreadable | Gone:
    return unreadable(error) if error.errno not in ABSENT and error.errno != errno.ELOOP else gone(root)


def gone(root: str) -> Gone | Unreadable:
    """What a missing file means."""
    try:
        # A root that can't be reached looks as if all its runs had been removed.
        os.stat(root)
    except OSError as missing:
        return Unreadable(f"the root can't be reached: {missing.strerror}")
    return Gone()


def document_at(
    within: int, name: str, known: Signature | None = None, most: int = MAXIMUM_DOCUMENT
) -> Document | None:
    """The document `name` of an open directory as it is now, without its content if it is the known one.

    None if there is none. Raises `OSError`.
    """
    try:
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return None
    current = signature_of(status)
    if current == known:
        return Document(name, current, 0.0)
    if not stat.S_ISREG(status.st_mode):
        return Document(name, current, status.st_mtime, problem="is not a regular file")
    try:
        descriptor = os.open(name, REGULAR, dir_fd=within)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return Document(name, current, status.st_mtime, problem="is not a regular file")
        if error.errno in (errno.EACCES, errno.EPERM):
            return Document(name, current, status.st_mtime, problem="can't be read: permission denied")
        raise
    with held(descriptor):
        # Once more, of what was opened: another file may have the name by now, and its content must not go with the old
        # signature.
        status = os.fstat(descriptor)
        current = signature_of(status)
        if not stat.S_ISREG(status.st_mode):
            return Document(name, current, status.st_mtime, problem="is not a regular file")
        if status.st_size > most:
            problem = f"is larger than {most} bytes"
            return Document(name, current, status.st_mtime, problem=problem)
        content = os.read(descriptor, status.st_size + 1)  # a larger buffer costs more than the read
        return Document(name, current, status.st_mtime, content)


def change_of_run(path: str) -> LastChange | Unreadable | None:
    """When anything below a native run's directory changed last, except what Runward writes; None without an `exit.json`.

    Only times are read, so a link that appears in the place of a directory reveals nothing. Of a tree that is larger
    than a run's, a part is looked at.
    """
    newest = ended = 0.0
    left, todo = MOST_ENTRIES, [path]
    while todo and left:
        directory = todo.pop()
        try:
            with os.scandir(directory) as entries:
                for _, entry in zip(range(left), entries, strict=False):
                    left -= 1
                    if directory == path and (entry.name in OURS or is_part_or_temporary(entry.name)):
                        continue
                    try:
                        changed = entry.stat(follow_symlinks=False).st_ctime_ns / 1e9
                    except FileNotFoundError:
                        continue
                    newest = max(newest, changed)
                    if directory == path and entry.name == native.EXIT:
                        ended = changed
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(f"{directory}/{entry.name}")
        except OSError as error:
            if error.errno not in ABSENT and directory == path:
                return unreadable(error)
    return LastChange(newest, ended) if ended else None


def leave_word(directory: str, name: str, content: bytes) -> RunPlace | Unreadable | Gone:
    """Leave a note for the launcher of a run: what a signal can't say. Says whose directory it is.

    `content` gets the name `name`, and replaces what was there. If the note can't be written, `RunPlace.problem` says why,
    and the signal must suffice.
    """
    try:
        descriptor = os.open(directory, DIRECTORY)
    except OSError as error:
        return Gone() if error.errno in ABSENT or error.errno == LINK else unreadable(error)
    with held(descriptor):
        status = os.fstat(descriptor)
        problem = None
        try:
            # It is not synced: its reader is alive and reads it at once, or never.
            write_whole(descriptor, name, content)
        except OSError as error:
            problem = error.strerror or str(error)
        return RunPlace(status.st_uid, status.st_dev, status.st_ino, problem)


UNTRUSTED = 0


RACY = 0.1
"""Seconds: a directory that changed less than this before a look may change again unnoticed."""


def mark(signature: Signature) -> int:
    """A directory's signature in one number, because there are many of them; never `UNTRUSTED`."""
    return hash(signature) or 1


def trusted_mark(signature: Signature, now: float) -> int:
    """A directory's mark, unless it changed so recently that it may change again unnoticed."""
    # A file system's clock moves in steps. Two changes within one step leave the same signature, so the first one is not
    # trusted: the second one would never be seen.
    return mark(signature) if now - signature.modified_ns / 1e9 > RACY else UNTRUSTED
