"""One daemon per state directory: a lock excludes live daemons, the epoch excludes one that wakes up late."""

import fcntl
import os
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.disk.state_rights import check
from runward.daemon.users import name_of, run_as

LOCK: Final = "lock"

UNREAD: Final = "runs in it can't be read, and are not judged"
"""What is said of a root with runs that the daemon may not read: see `how_to_start_runs`."""

_ASKERS: Final = 10_000
"""How often to try for the lock while others only ask who holds it."""


class StateDirectoryHeld(Exception):
    """Another daemon uses the state directory."""

    def __init__(self, state: Path, pid: int | None) -> None:
        self.pid = pid
        who = f"daemon {pid}" if pid else "another daemon"
        super().__init__(f"{state} is held by {who}: stop it first, or use another RUNWARD_STATE_DIR")


class Ownership(NamedTuple):
    """A held lock; it is released when the process ends, however it ends."""

    descriptor: int

    def release(self) -> None:
        os.close(self.descriptor)


def prepare(state: Path) -> None:
    """Make the state directory, accessible to this user only. Raises `StateDirectoryUnsafe` and `OSError`."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    check(state)
    (state / "inbox").mkdir(mode=0o700, exist_ok=True)
    (state / "log").mkdir(mode=0o700, exist_ok=True)
    (state / "starts").mkdir(mode=0o700, exist_ok=True)


def how_to_start_runs(state: str) -> str | None:
    """Who may start runs for the daemon of this state directory, and how; None if nobody knows whose it is."""
    try:
        owner = os.stat(state).st_uid
    except OSError:
        return None
    who = name_of(owner)
    return (
        f"the daemon runs as {who}: let {who} read them, and start such runs as {who}"
        f" (`{run_as(who, state, 'run -- COMMAND')}`)"
    )


def how_to_start_daemon(state: str) -> str:
    """The command that starts a daemon over this state directory, as the user to whom it belongs."""
    try:
        owner = os.stat(state).st_uid
    except OSError:
        owner = os.geteuid()
    return "runward daemon" if owner == os.geteuid() else run_as(name_of(owner), state, "daemon")


def hold(state: Path) -> Ownership:
    """Take the state directory's lock. Raises `StateDirectoryHeld`."""
    # Not inherited: a launched run would keep the lock when its daemon is gone. And never unlinked: with a new file of
    # that name, two daemons could each have a lock.
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _take(descriptor)
    except BlockingIOError:
        pid = _pid(descriptor)
        os.close(descriptor)
        raise StateDirectoryHeld(state, pid) from None
    # The number is for messages only. The lock decides, and the kernel frees it however the process ends.
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return Ownership(descriptor)


def _take(descriptor: int) -> None:
    """Take the lock only. Raises `BlockingIOError` if a daemon has it; `holder` has it for a moment only."""
    for _ in range(_ASKERS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            # A shared lock succeeds exactly if all its holders are only checking.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.sched_yield()
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holder(state: Path) -> int | None:
    """The pid of the daemon that uses the state directory now, None if there is none."""
    try:
        descriptor = os.open(state / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(descriptor) or 0
    finally:
        os.close(descriptor)
    return None


def _pid(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None
