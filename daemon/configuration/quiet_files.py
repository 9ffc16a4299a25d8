"""Files that somebody may be saving at this moment: a file that is half written may be valid."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Final

Look = dict[str, tuple[int, ...]]
"""What a look saw: each file, with what changes when the file does. The last number is the time (ns) of its change."""

_LATELY_S: Final = 0.2
"""Only files that changed in this time are waited for, so nearly no look costs anything."""

_PAUSE_S: Final = 0.05
_LONGEST_S: Final = 1.0


def wait_until_quiet(look: Callable[[], Look]) -> Look:
    """Wait until two looks see the same, a second at most; returns the last look."""
    end = time.monotonic() + _LONGEST_S
    seen = look()
    while _changed_lately(seen) and time.monotonic() < end:
        time.sleep(_PAUSE_S)
        now = look()
        if now == seen:
            break
        seen = now
    return seen


def look_into(directories: Iterable[str]) -> Look:
    """The files in these directories; of a directory in one of them, the file in it that has its name."""
    found: Look = {}
    for directory in directories:
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    within = f"{entry.path}/{entry.name}.md" if _is_directory(entry) else entry.path
                    found[within] = _signature(within)
        except OSError as error:
            found[directory] = (error.errno or 0, 0)
    return found


def look_at(path: str) -> Look:
    """One file."""
    return {path: _signature(path)}


def _signature(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError as error:
        return (error.errno or 0, 0)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _changed_lately(seen: Look) -> bool:
    now = time.time_ns()
    return any(0 <= now - signature[-1] < _LATELY_S * 1e9 for signature in seen.values())
