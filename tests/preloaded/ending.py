"""How a command ends in a fork of a server which has imported everything.

An interpreter takes down its modules at its end. In a fork that copies all of the server's memory first, which takes
longer than many a command.
"""

import atexit
import os
import sys
from collections.abc import Callable
from typing import Final

_CODES: Final[list[int]] = []
"""The exit code, once the command has given it."""


def to_its_end(command: Callable[[], None]) -> None:
    """Run a command. Threads are waited for and what is registered for the exit is called, as after any other."""
    try:
        command()
    except SystemExit as end:
        if isinstance(end.code, int):
            _CODES.append(end.code)
        raise
    _CODES.append(0)


def _end() -> None:
    if not _CODES:
        return  # the server itself ends, or an interpreter says what went wrong
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # an interpreter says that, too
    os._exit(_CODES[0])


atexit.register(_end)  # before the program's own, which are called before it
