"""Opening what is under a root without ever leaving it or blocking.

Every component is opened separately, relative to the one before it, without following links. So what was checked is what
is used, whatever is renamed meanwhile.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from runward.handlers.model.files import Unreadable


class Gone(NamedTuple):
    """There is no such directory, while the root that would hold it can be read."""


class NotRegular(Exception):
    """What is there is not a regular file."""


class Halted(Exception):
    """Hashing or reading was asked to stop."""


DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A directory as a place to start from. O_PATH, because an ordinary open would notify our own watch."""

LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""A directory whose names are read, which O_PATH doesn't allow."""

ROOT: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
REGULAR: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
REFUSED: Final = frozenset({errno.EACCES, errno.EPERM})
LINK: Final = errno.ELOOP
LASTING: Final = ABSENT | REFUSED | {LINK, errno.ENAMETOOLONG, errno.EINVAL}
"""Where no file can be read, no matter who tries, and however often."""


def unreadable(error: OSError) -> Unreadable:
    """An operating system's error as an answer, without the path that it concerned."""
    return Unreadable(error.strerror or str(error))


def open_root(path: str) -> int:
    """A descriptor of a root's directory. The operator named it, so links on the way are followed."""
    return os.open(path, ROOT)


class held(AbstractContextManager[int]):
    """The descriptor, closed afterwards. A look holds several, and a generator would cost as much as the call that opens one."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *raised: object) -> None:
        os.close(self._descriptor)


def opened(path: str, flags: int, within: int | None = None) -> AbstractContextManager[int]:
    """A descriptor of `path`, relative to the descriptor `within` if there is one, closed afterwards."""
    return held(os.open(path, flags, dir_fd=within))


@contextmanager
def opened_below(within: int, parts: list[str]) -> Iterator[int]:
    """As `open_below`, closed afterwards; without any parts it is `within` itself, which stays open."""
    if not parts:
        yield within
        return
    with held(open_below(within, parts)) as descriptor:
        yield descriptor


def open_place(root: str, parts: list[str]) -> int:
    """A descriptor of the directory that `parts` lead to below a root, or of the root itself. Raises `OSError`.

    No link below the root is followed.
    """
    if not parts:
        return open_root(root)
    first = os.open(f"{root}/{parts[0]}", DIRECTORY)
    if len(parts) == 1:
        return first
    with held(first):
        return open_below(first, parts[1:])


def open_below(within: int, parts: list[str]) -> int:
    """A descriptor of the directory that `parts` lead to, one component at a time.

    Raises `OSError`: ELOOP or ENOTDIR if a component is a link or not a directory.
    """
    descriptor = os.open(parts[0], DIRECTORY, dir_fd=within)
    for part in parts[1:]:
        try:
            # One component at a time: O_NOFOLLOW only concerns the last one of a path.
            following = os.open(part, DIRECTORY, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = following
    return descriptor


def open_in_run(directory: str, name: str) -> int:
    """A descriptor of the regular file `name` in a run directory. Raises `OSError` and `NotRegular`."""
    with opened(directory, DIRECTORY) as within:
        try:
            return open_regular(within, name)
        except NotRegular:
            raise NotRegular(f"{directory}/{name} is not a regular file") from None


def open_regular(within: int, name: str) -> int:
    """A descriptor of the regular file `name` in, or below, an open directory. Raises `OSError` and `NotRegular`.

    No link is followed on the way.
    """
    if "/" in name:
        *parents, last = name.split("/")
        with opened_below(within, parents) as directory:
            return open_regular(directory, last)
    descriptor = os.open(name, REGULAR, dir_fd=within)
    # Of what was opened. REGULAR does not block at a pipe, but it opens one, and devices.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(f"{name} is not a regular file")
    return descriptor
