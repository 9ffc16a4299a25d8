"""The lock that keeps a second daemon away: whether this file system really excludes."""

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runward.daemon.doctor.commands import Ended, end_of
from runward.daemon.doctor.findings import Finding, Installation, Patience

_EXCLUDED: Final = 7
_ASK: Final = (
    "import fcntl, sys\n"
    "file = open(sys.argv[1])\n"
    "try:\n    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    f"except BlockingIOError:\n    sys.exit({_EXCLUDED})\n"
)
_FIX: Final = "put state_dir on a local file system: two daemons could run there at once"


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Hold a lock next to the daemon's, and have another process ask for it, then once more when it is free."""
    with installation.scratch() as scratch:
        path = scratch / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = _ask(path, installation, patience)
        finally:
            os.close(descriptor)
        free = _ask(path, installation, patience)
    if held.code == 0:
        yield Finding("failed", f"a lock in {scratch.parent} doesn't keep another process out", _FIX)
    elif held.code != _EXCLUDED or free.code != 0:
        yield Finding("failed", f"locks in {scratch.parent} don't work: {held.err or free.err}", _FIX)
    else:
        yield Finding(
            "ok",
            f"a lock in {scratch.parent} keeps another process out, and is released when its holder ends",
        )


def _ask(path: Path, installation: Installation, patience: Patience) -> Ended:
    """Another process tries to take the lock."""
    words = [sys.executable, "-I", "-S", "-c", _ASK, str(path)]
    return end_of(words, installation.environment, patience, patience.seconds)
