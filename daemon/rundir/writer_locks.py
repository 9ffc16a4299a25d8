"""Codex's writer locks, `<home>/thread-writer-locks/<thread id>.lock`: flock'ed while a thread has a writer.

The file stays behind when Codex is killed, until its next start sweeps it away. So a lock file that nobody holds means
that the writer has ended, unless another machine shares the home, whose locks are not seen here. A missing file means
nothing.
"""

import fcntl
import os
from typing import Final

from runward.daemon.disk.mounts import is_local
from runward.daemon.processes.identity import identity_of
from runward.daemon.rundir.tailing import NotRegular, open_in_run
from runward.handlers.layouts.codex_names import lock_of
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.sessions.death import Absence
from runward.handlers.sessions.over import Writer

ARCHIVED: Final = "archived_sessions"
SESSIONS: Final = "sessions"

_KERNELS_LIST: Final = "/proc/locks"
_NOBODY_KNOWS: Final = Writer("unknown")


def home_directory(rollout: str) -> str | None:
    """Codex's home, from the path of a rollout, if its own program put it there."""
    directory = os.path.dirname(rollout)
    if os.path.basename(directory) == ARCHIVED:
        return os.path.dirname(directory)
    for _ in range(3):  # day, month, year
        directory = os.path.dirname(directory)
    return os.path.dirname(directory) if os.path.basename(directory) == SESSIONS else None


def writer_of(home: str, thread: str) -> Writer:
    """Who has the lock of this thread's writer; `unknown` if no one has it, or if that can't be read."""
    lock = lock_of(thread)
    if lock is None:
        return _NOBODY_KNOWS
    directory, _, name = lock.rpartition("/")
    try:
        descriptor = open_in_run(f"{home}/{directory}", name)
    except (OSError, NotRegular):
        return _NOBODY_KNOWS
    try:
        holder = _listed_holder(descriptor)
        if holder is None and _is_free(descriptor):
            # The kernel knows the locks of all its namespaces, but not those of other machines.
            absence = Absence((), is_in_first_namespace=True, is_local=is_local(home), is_nowhere=True)
            return Writer("gone", absence=absence)
    except OSError:
        return _NOBODY_KNOWS
    finally:
        os.close(descriptor)
    return Writer("alive", process=_process(holder))


def _listed_holder(descriptor: int) -> int | None:
    """The pid that the kernel lists as the lock's holder, without disturbing anyone; 0 if none is visible here.

    It lists none from other PID namespaces, and on some file systems under another device number.
    """
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    wanted = f"{device}:{status.st_ino}".encode()
    try:
        with open(_KERNELS_LIST, "rb") as file:
            for line in file:
                fields = line.split()
                if wanted in fields and b"FLOCK" in fields and b"->" not in fields:
                    return _pid_in(fields)
    except OSError:
        return None
    return None


def _pid_in(fields: list[bytes]) -> int:
    """`1: FLOCK ADVISORY WRITE 4242 00:25:1093 0 EOF`: who took the lock."""
    pid = fields[4] if len(fields) > 4 else b""
    return int(pid) if pid.isdigit() else 0


def _process(pid: int | None) -> RecordedProcess | None:
    """The holder of a lock, so that it can be found again.

    Its child may hold the lock after the holder itself has ended.
    """
    if not pid:
        return None
    try:
        holder = identity_of(pid)
    except (OSError, ValueError):
        return None
    return RecordedProcess(holder.pid, holder.start_ticks, holder.boot_id)


def _is_free(descriptor: int) -> bool:
    """Whether the lock is free, by trying to share it for a moment.

    This is tried only if the kernel lists no holder. A Codex that wanted this very thread at that moment would have
    found it taken once. One that looks for stale locks would leave this one for its next start.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True
