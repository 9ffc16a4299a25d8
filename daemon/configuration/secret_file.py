"""A secret in a file: its first line, and only if nobody else may read it."""

import os
import stat
from typing import Final

_LONGEST: Final = 4096


class SecretUnusable(Exception):
    """The file can't be used; the message says why, and what to do."""


def first_line(path: str) -> str:
    """The first line of a file that only its owner may read. Raises `SecretUnusable`."""
    try:
        # Without waiting: a FIFO may have no writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb") as file:
            # Of what was opened: at the path, there may be another file by now.
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SecretUnusable(f"{path} is not a regular file")
            if status.st_mode & 0o077:
                raise SecretUnusable(f"others may read {path}: chmod 600 {path}")
            text = file.read(_LONGEST).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnusable(
            f"{path} can't be read: {getattr(error, 'strerror', 'it is not UTF-8')}"
        ) from error
    return text.partition("\n")[0].strip()


def secret_of(path: str) -> bytes:
    """The secret in a file; an empty one doesn't count. Raises `SecretUnusable`."""
    secret = first_line(path)
    if not secret:
        raise SecretUnusable(f"{path} is empty: write the secret into its first line")
    return secret.encode()
