"""A note for the launcher of a run, left in its run directory: what a signal can't say.

It is not a record, so it is not synced: its reader is alive and reads it at once, or never.
"""

import os
from typing import Final

from runward.daemon.ports.files import Gone
from runward.daemon.ports.processes import RunPlace
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, unreadable
from runward.handlers.model.unreadable import Unreadable

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def leave_word(directory: str, name: str, content: bytes) -> RunPlace | Unreadable | Gone:
    """Put `content` under `name` into a run directory, replacing what was there, and say whose directory it is.

    If the note can't be written, `RunPlace.problem` says why, and the signal must suffice.
    """
    try:
        descriptor = os.open(directory, DIRECTORY)
    except OSError as error:
        return Gone() if error.errno in ABSENT or error.errno == LINK else unreadable(error)
    try:
        status = os.fstat(descriptor)
        problem = None
        try:
            _write(descriptor, name, content)
        except OSError as error:
            problem = error.strerror or str(error)
        return RunPlace(status.st_uid, status.st_dev, status.st_ino, problem)
    finally:
        os.close(descriptor)


def _write(directory: int, name: str, content: bytes) -> None:
    temporary = f".{name}.{os.urandom(6).hex()}.tmp"
    descriptor = os.open(temporary, _NEW, 0o600, dir_fd=directory)
    try:
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(temporary, dir_fd=directory)
        raise
