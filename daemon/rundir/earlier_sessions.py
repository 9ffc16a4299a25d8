"""Sessions of a tool that now has a database, from before it had one: each in files of its own, which are not read.

They are looked for only to say so: they would otherwise be missing silently.
"""

import fnmatch
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from runward.daemon.rundir.opening import NotRegular, held, open_in_run
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.layout import Earlier

MOST_ENTRIES: Final = 100_000
"""Entries of directories that are looked at in all."""

LARGEST: Final = 1 << 20
"""Bytes of a session's own file that are read for its version."""


def earlier_sessions(
    directory: str, names: Iterable[str], earlier: Earlier, known: Container[str]
) -> tuple[str, str] | None:
    """In which of these names of a directory such sessions are, and the end of a sentence that begins with it.

    Those that the database took over, whose ids are `known`, don't count.
    """
    names, left = sorted(names), iter(range(MOST_ENTRIES))
    for pattern in earlier.files:
        first, *rest = pattern.split("/")
        for name in fnmatch.filter(names, first):
            if os.path.islink(f"{directory}/{name}"):
                continue
            found = _below(f"{directory}/{name}", rest, left)
            path = next((each for each in found if PurePosixPath(each).stem not in known), None)
            if path is not None:
                return name, _told(path, earlier)
    return None


def earlier_session(path: str, earlier: Earlier) -> str | None:
    """The same for a session's own file."""
    is_one = any(PurePosixPath(path).match(each) for each in earlier.files)
    return _told(path, earlier) if is_one else None


def _told(path: str, earlier: Earlier) -> str:
    version = _version(path)
    which = f"version {version}" if version else "a version that it doesn't name"
    return f"has sessions of {which} in files of their own, which Runward doesn't read: {earlier.since}"


def _below(directory: str, parts: Sequence[str], left: Iterator[int]) -> Iterator[str]:
    """The files below a directory at this path of globs, as long as entries are `left`. No link is followed."""
    try:
        with os.scandir(directory) as entries:
            for entry, _ in zip(entries, left, strict=False):
                if not fnmatch.fnmatchcase(entry.name, parts[0]):
                    continue
                if len(parts) == 1:
                    if entry.is_file(follow_symlinks=False):
                        yield entry.path
                elif entry.is_dir(follow_symlinks=False):
                    yield from _below(entry.path, parts[1:], left)
    except OSError:
        return  # what can't be listed shows nothing, and nothing in it would be read


def _version(path: str) -> str | None:
    """The version of the tool that wrote a session, as the session says."""
    try:
        with held(open_in_run(*os.path.split(path))) as descriptor:
            value = read_json(os.pread(descriptor, LARGEST, 0))
    except (OSError, NotRegular):
        return None
    version = None if isinstance(value, NotJson) or not isinstance(value, dict) else value.get("version")
    return version[:40] if isinstance(version, str) else None
