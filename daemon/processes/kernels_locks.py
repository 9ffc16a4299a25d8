"""Who holds a flock(2), by the kernel's own list (proc_locks(5)), which every user may read."""

import os
from typing import Final

_LIST: Final = "/proc/locks"


def flock_holders(device: int, inode: int) -> list[int]:
    """The pids of those who took a lock on this file and were not refused; 0 for a pid that is not visible here.

    Nobody is disturbed by it. The kernel lists nobody from other PID namespaces, and on some file systems it lists files
    under another device number. A lock may outlive who took it, in a child that has the same descriptor.
    """
    wanted = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}".encode()
    try:
        with open(_LIST, "rb") as file:
            return [_pid_in(fields) for fields in map(bytes.split, file) if _is_lock_of(wanted, fields)]
    except OSError:
        return []


def _is_lock_of(wanted: bytes, fields: list[bytes]) -> bool:
    """A line with an arrow is of somebody who waits for the lock."""
    return wanted in fields and b"FLOCK" in fields and b"->" not in fields


def _pid_in(fields: list[bytes]) -> int:
    """`1: FLOCK ADVISORY WRITE 4242 00:25:1093 0 EOF`: who took the lock."""
    pid = fields[4]
    return int(pid) if pid.isdigit() else 0
