"""Keys of a state directory that nobody else may know: each is a file of random bytes, made on first use."""

import os
import stat
from pathlib import Path
from typing import Final

from runward.daemon.disk.durable import write_durably

_BYTES: Final = 32


class KeyUnusable(Exception):
    """The key can't be used; the message says why and what to do."""


def secret_key(state: Path, name: str, consequence: str) -> bytes:
    """The key of this name. `consequence` says what no longer works once it is replaced.

    Raises `KeyUnusable` and `OSError`.
    """
    path = state / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return new_secret_key(state, name)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        key = file.read(_BYTES + 1)
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
        raise KeyUnusable(f"others may read or change {path}: remove it; {consequence}")
    if len(key) != _BYTES:
        raise KeyUnusable(f"{path} is not a key: remove it; {consequence}")
    return key


def new_secret_key(state: Path, name: str) -> bytes:
    """A new key of this name, in place of one that was there. Raises `OSError`."""
    key = os.urandom(_BYTES)
    write_durably(state, name, key)
    return key
