"""Processes that stand for the program that writes a session: one that lives until it is killed, one that holds a lock."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process, and come back when it is gone."""
    process.kill()
    process.wait()


@contextmanager
def held(lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process holds the lock, and is killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
