"""The agent's last message, from the end of a foreign session's log. At most `MOST_BYTES` of a log are looked at."""

import os
from typing import Final

from runward.daemon.rundir.growing import CannotUnpack, Unpacked
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REFUSED, opened, unreadable
from runward.daemon.rundir.tailing import NotRegular, open_regular
from runward.handlers.layouts.places import PACKED
from runward.handlers.layouts.registry import FINAL_MESSAGES
from runward.handlers.model.unreadable import Unreadable

MOST_BYTES: Final = 4 << 20
"""Bytes before the end of a log in which the last message is looked for."""

MOST_UNPACKED: Final = 256 << 20
"""Bytes that are unpacked to get to the end of a packed log. Of a larger one, the last message is not known."""

_PIECE: Final = 1 << 20


def final_message(layout: str, path: str) -> str | Unreadable | None:
    """The agent's last message in the log at `path`; None if there is none, or if nobody can read the log.

    If the agent packed the log meanwhile, the packed log is read.
    """
    find = FINAL_MESSAGES.get(layout)
    if find is None:
        return None
    directory, _, name = path.rpartition("/")
    try:
        with opened(directory or "/", DIRECTORY) as within:
            lines = _lines_of(within, name)
    except (NotRegular, CannotUnpack):
        return None
    except OSError as error:
        return None if error.errno in ABSENT | REFUSED | {LINK} else unreadable(error)
    return find(reversed(lines))


def _lines_of(within: int, name: str) -> list[bytes]:
    """The whole lines at the end of a log, and the text after the last newline."""
    try:
        descriptor = open_regular(within, name)
    except FileNotFoundError:
        if name.endswith(PACKED):
            raise
        return _lines_of(within, f"{name}{PACKED}")
    try:
        return _last_unpacked(descriptor) if name.endswith(PACKED) else _last_lines(descriptor)
    finally:
        os.close(descriptor)


def _last_unpacked(descriptor: int) -> list[bytes]:
    unpacked, end, count = Unpacked(descriptor), b"", 0
    while piece := unpacked.read(_PIECE):
        count += len(piece)
        if count > MOST_UNPACKED:
            raise CannotUnpack(f"unpacks to more than {MOST_UNPACKED} bytes")
        end = end[-MOST_BYTES:] + piece
    lines = end[-MOST_BYTES:].split(b"\n")
    return lines[1:] if count > MOST_BYTES else lines


def _last_lines(descriptor: int) -> list[bytes]:
    size = os.fstat(descriptor).st_size
    start = max(0, size - MOST_BYTES)
    lines = os.pread(descriptor, MOST_BYTES, start).split(b"\n")
    return lines[1:] if start else lines
