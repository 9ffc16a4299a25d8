"""Files that are there whole or not at all, also after a power cut. Not for files that only grow."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_durably(directory: str | os.PathLike[str] | int, name: str, content: bytes) -> None:
    """Puts `content` under `name` into `directory` (a path or an open descriptor), in place of what was there.

    When it returns the file is on the disk with mode 0600; a reader sees the old one or the new one, never
    a part. The temporary name begins with a dot and lies in the same directory. Raises OSError, and then
    leaves neither the temporary file nor a changed `name`.
    """
    with _opened(directory) as descriptor:
        temporary = f".{name}.{os.urandom(6).hex()}.tmp"
        try:
            _write_new(descriptor, temporary, content)
            os.rename(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        except BaseException:
            _remove(descriptor, temporary)
            raise
        sync_directory(descriptor)


def sync_directory(directory: str | os.PathLike[str] | int) -> None:
    """Makes the names in `directory` durable. A file system that can't sync directories has no need to."""
    with _opened(directory) as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise


@contextmanager
def _opened(directory: str | os.PathLike[str] | int) -> Iterator[int]:
    if isinstance(directory, int):
        yield directory
        return
    descriptor = os.open(directory, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_new(directory: int, name: str, content: bytes) -> None:
    descriptor = os.open(name, _NEW, 0o600, dir_fd=directory)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
