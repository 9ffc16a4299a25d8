"""Runward's lines in a journal, as they are on the disk, for rebuilding a session's state from them."""

import os
import stat
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REGULAR, opened
from runward.daemon.rundir.our_lines import SEARCHED
from runward.daemon.rundir.whole_lines import whole_lines
from runward.handlers.layouts.foreign_json import read_json

LONGEST: Final = 8 << 20
"""Bytes of a line that are read: a contract of a thousand entries is about half of it."""


class JournalAway(Exception):
    """The lines can't be read, so nothing is known about them; the message says why."""


def told_lines(
    directory: str, name: str, hashes: Container[str], read: Callable[[int], None]
) -> Iterator[JsonValue]:
    """The lines that carry one of these hashes. `read` is called with the number of bytes that were read.

    None if there is no such file in the directory. Raises `JournalAway`.
    """
    with ExitStack() as held:
        try:
            within = held.enter_context(opened(directory, DIRECTORY))
        except OSError as error:
            gone = error.errno in ABSENT or error.errno == LINK
            raise JournalAway("its directory is gone" if gone else str(error.strerror)) from error
        try:
            descriptor = held.enter_context(opened(name, REGULAR, within))
        except OSError as error:
            if error.errno in ABSENT or error.errno == LINK:
                return
            raise JournalAway(f"its journal can't be read: {error.strerror}") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        if status.st_size > SEARCHED:
            raise JournalAway(f"its journal has more than {SEARCHED} bytes")
        try:
            for _, line in whole_lines(descriptor, status.st_size, LONGEST):
                read(len(line))
                value = read_json(line) if b'"hash"' in line else None
                if isinstance(value, dict) and value.get("hash") in hashes:
                    yield value
        except OSError as error:
            raise JournalAway(f"its journal can't be read: {error.strerror}") from error
