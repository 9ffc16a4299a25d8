"""The agent's last message, from the end of a foreign session's log. At most `MOST_BYTES` of a log are read."""

import os
from typing import Final

from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REFUSED, opened, unreadable
from runward.daemon.rundir.tailing import NotRegular, open_regular
from runward.handlers.layouts.registry import FINAL_MESSAGES
from runward.handlers.unreadable import Unreadable

MOST_BYTES: Final = 4 << 20
"""Bytes before the end of a log in which the last message is looked for."""


def final_message(layout: str, path: str) -> str | Unreadable | None:
    """The agent's last message in the log at `path`; None if there is none, or if the log can't be read by anyone.

    A packed log is not read: it was packed long after its session was over.
    """
    find = FINAL_MESSAGES.get(layout)
    if find is None:
        return None
    directory, _, name = path.rpartition("/")
    try:
        with opened(directory or "/", DIRECTORY) as within:
            descriptor = open_regular(within, name)
        try:
            lines = _last_lines(descriptor)
        finally:
            os.close(descriptor)
    except NotRegular:
        return None
    except OSError as error:
        return None if error.errno in ABSENT | REFUSED | {LINK} else unreadable(error)
    return find(reversed(lines))


def _last_lines(descriptor: int) -> list[bytes]:
    """The whole lines at the end of a log, and the text after the last newline."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - MOST_BYTES)
    lines = os.pread(descriptor, MOST_BYTES, start).split(b"\n")
    return lines[1:] if start else lines
