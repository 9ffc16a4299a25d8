"""Codex's writer locks, `<home>/thread-writer-locks/<thread id>.lock`: flock'ed while a thread has a writer.

The file stays behind when Codex is killed, until its next start sweeps it away. So a lock file that nobody holds says
that the writer is gone, and no file says nothing.
"""

import fcntl
import os
from typing import Final

from runward.daemon.rundir.tailing import NotRegular, open_in_run
from runward.handlers.layouts.codex_names import lock_of
from runward.handlers.sessions.observe import ProcessState

ARCHIVED: Final = "archived_sessions"
SESSIONS: Final = "sessions"

_KERNELS_LIST: Final = "/proc/locks"


def home_directory(rollout: str) -> str | None:
    """Codex's home, from the path of a rollout where its own program put it."""
    directory = os.path.dirname(rollout)
    if os.path.basename(directory) == ARCHIVED:
        return os.path.dirname(directory)
    for _ in range(3):  # day, month, year
        directory = os.path.dirname(directory)
    return os.path.dirname(directory) if os.path.basename(directory) == SESSIONS else None


def writer_state(home: str, thread: str) -> ProcessState:
    """Whether somebody holds the lock of this thread's writer; `unknown` where there is none, or nobody may know."""
    lock = lock_of(thread)
    if lock is None:
        return "unknown"
    directory, _, name = lock.rpartition("/")
    try:
        descriptor = open_in_run(f"{home}/{directory}", name)
    except (OSError, NotRegular):
        return "unknown"
    try:
        return "alive" if _is_listed(descriptor) or not _is_free(descriptor) else "gone"
    except OSError:
        return "unknown"
    finally:
        os.close(descriptor)


def _is_listed(descriptor: int) -> bool:
    """Whether the kernel lists a lock on this file, which disturbs nobody.

    It lists none of other PID namespaces, and on some file systems under another device number.
    """
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    wanted = f"{device}:{status.st_ino}".encode()
    try:
        with open(_KERNELS_LIST, "rb") as file:
            return any(wanted in line.split() and b"FLOCK" in line and b"->" not in line for line in file)
    except OSError:
        return False


def _is_free(descriptor: int) -> bool:
    """Whether nobody holds the lock, by trying to share it for a moment.

    It is tried only where the kernel lists no holder. A Codex that wanted this very thread in that moment would have
    found it taken once; one that looks for stale locks leaves this one for its next start.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True
