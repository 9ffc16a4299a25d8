"""The epoch outside the database: what a writer of journals reads inside a file's lock.

A new daemon raises it in the database first and here next, before it writes anything. So a daemon that was frozen in
the meantime reads the new epoch when it wakes up, and knows that it was replaced.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final


class EpochPassed(Exception):
    """Another daemon has taken over the state directory: this one must not do anything more."""


def taken_over(epoch: int, current: int) -> str:
    """Why a daemon of `epoch` must not do anything more."""
    return f"another daemon took over the state directory: this one's epoch is {epoch}, now it is {current}"


def check_epoch(epoch: int, current: int) -> None:
    """Raises `EpochPassed` unless a daemon of `epoch` is the current one."""
    if current != epoch:
        raise EpochPassed(taken_over(epoch, current))


NAME: Final = "epoch"


def read_epoch(state: Path) -> int:
    """The epoch of the daemon that uses the state directory now. Raises `OSError`."""
    descriptor = os.open(f"{state}/{NAME}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(descriptor, 32) or b"0")
    finally:
        os.close(descriptor)


def epoch_file(state: Path) -> tuple[int, int]:
    """Which file contains the epoch: another file means that the state directory was replaced. Raises `OSError`."""
    status = os.stat(f"{state}/{NAME}")
    return status.st_dev, status.st_ino


def write_epoch(state: Path, epoch: int) -> None:
    """Make `epoch` the one that writers of journals must have.

    Raises `OSError`: a daemon whose epoch isn't written must not continue.
    """
    descriptor = os.open(f"{state}/{NAME}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Written in place and always as long, so that a reader never finds no file, or a part of a number.
        content = b"%020d\n" % epoch
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), NAME)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HeldEpoch:
    """The epoch that a daemon wrote when it took `state` over, and whether it is still the current one."""

    def __init__(self, state: Path, epoch: int, unreadable: Callable[[str | None], None]) -> None:
        """Write it; `unreadable` is called with the reason if it can't be read later. Raises `OSError`, as `write_epoch` does."""
        write_epoch(state, epoch)
        self._state = state
        self._epoch = epoch
        self._unreadable = unreadable
        self._file = epoch_file(state)

    def check(self) -> None:
        """Raises `EpochPassed` if another daemon took the state directory over, or it is no longer the same.

        A read error is ignored here, because every write checks the epoch anyway.
        """
        try:
            current = read_epoch(self._state)
            # A restored copy of the state directory has the same epoch in another file.
            replaced = epoch_file(self._state) != self._file
        except FileNotFoundError:
            raise EpochPassed(f"the state directory {self._state} was removed") from None
        except OSError as error:
            self._unreadable(error.strerror)
            return
        if replaced:
            raise EpochPassed(f"the state directory {self._state} was replaced by another")
        check_epoch(self._epoch, current)
