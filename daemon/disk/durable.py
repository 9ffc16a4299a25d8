"""Files that exist whole or not at all, even after a power cut. Not for files that only grow."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""For a file that nobody made before: not through a link, nor in place of another file."""


def write_durably(directory: str | os.PathLike[str] | int, name: str, content: bytes) -> None:
    """Puts `content` under `name` into `directory` (a path or an open descriptor), replacing what was there.

    When it returns, the file is on the disk with mode 0600. A reader sees the old one or the new one, never a part. The
    temporary name begins with a dot and is in the same directory. Raises OSError, and then leaves neither the
    temporary file nor a changed `name`.
    """
    with _Opened(directory) as descriptor:
        # Write, sync, rename, sync the directory. Without the first sync a power cut may leave an empty file under `name`, and
        # without the second one the old file.
        write_whole(descriptor, name, content, is_synced=True)
        sync_directory(descriptor)


def write_whole_file(directory: str | os.PathLike[str], name: str, content: bytes) -> None:
    """Like `write_durably`, but after a power cut, `name` may be what it was before. For what can be written again then."""
    with _Opened(directory) as descriptor:
        write_whole(descriptor, name, content, is_synced=True)


def write_whole(
    directory: int,
    name: str,
    content: bytes,
    *,
    is_synced: bool = False,
    kept: list[int] | None = None,
    mode: int = 0o600,
) -> None:
    """Like `write_durably` in an open directory, but at most the content is durable when it returns, if it `is_synced`.

    With `kept`, the file's descriptor is added to it and stays open: who else may write to the directory can put another
    file in its place before the caller syncs it.
    """
    temporary = f".{name}.{os.urandom(6).hex()}.tmp"
    try:
        descriptor = os.open(temporary, NEW, 0o600, dir_fd=directory)
        try:
            write_all(descriptor, content)
            if mode != 0o600:
                os.fchmod(descriptor, mode)  # whatever the umask is
            if is_synced:
                os.fsync(descriptor)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.close(descriptor)
            raise
    except BaseException:
        _remove(directory, temporary)
        raise
    if kept is None:
        os.close(descriptor)
    else:
        kept.append(descriptor)


class ReservedFile:
    """A file whose disk space is reserved beforehand, for what must be written even when the disk is full.

    Until `write` it is in `directory` (an open descriptor) under a temporary name that starts with a dot.
    """

    def __init__(self, directory: int, name: str, size: int) -> None:
        self._directory = directory
        self._name = name
        self._size = size
        self._temporary = f".{name}.{os.urandom(6).hex()}.tmp"
        self._descriptor = os.open(self._temporary, NEW, 0o600, dir_fd=directory)
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except BaseException:
            self.discard()
            raise

    def write(self, content: bytes, tell: Callable[[], None] | None = None) -> None:
        """Like `write_durably`, in the reserved space, or in a new file if somebody removed that.

        `tell` is called as soon as the file is there whole; then it is made durable only after that.
        """
        if len(content) > self._size or not self._is_in_place():
            self.discard()
            write_durably(self._directory, self._name, content)
            if tell is not None:
                tell()
            return
        try:
            write_all(self._descriptor, content)
            # The reserved space is larger than the content.
            os.ftruncate(self._descriptor, len(content))
            if tell is None:
                os.fsync(self._descriptor)
            os.rename(self._temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            if tell is not None:
                tell()
                os.fsync(self._descriptor)
        except BaseException:
            _remove(self._directory, self._temporary)
            raise
        finally:
            os.close(self._descriptor)
        sync_directory(self._directory)

    def discard(self) -> None:
        """Gives the space back."""
        os.close(self._descriptor)
        _remove(self._directory, self._temporary)

    def _is_in_place(self) -> bool:
        """Whether the name still leads to our file: anyone who may write to the directory may have changed that."""
        try:
            status = os.stat(self._temporary, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(self._descriptor))


def make_durably(within: str | os.PathLike[str], path: str) -> None:
    """Makes the directory `path` below `within`, with those above it; what was made is durable. Raises `OSError`."""
    if os.path.isdir(os.path.join(within, path)):
        return
    place = os.fspath(within)
    for part in path.split("/"):
        parent, place = place, os.path.join(place, part)
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:
            continue
        # The name of a new directory is in its parent.
        sync_directory(parent)


def sync_directory(directory: str | os.PathLike[str] | int) -> None:
    """Makes the names in `directory` durable. A file system that can't sync directories has no need to."""
    with _Opened(directory) as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise


class _Opened:
    """A directory's descriptor for a while: the given one, or one of its own. (contextlib costs time to import.)"""

    def __init__(self, directory: str | os.PathLike[str] | int) -> None:
        self._given = directory

    def __enter__(self) -> int:
        directory = self._given
        self._descriptor = directory if isinstance(directory, int) else os.open(directory, _DIRECTORY)
        return self._descriptor

    def __exit__(self, *failure: object) -> None:
        if not isinstance(self._given, int):
            os.close(self._descriptor)


def write_all(descriptor: int, content: bytes | memoryview) -> None:
    """All of it. Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
