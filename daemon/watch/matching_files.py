"""The files that a glob matches, and the state of each. No link is followed below the glob's base."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from runward.config.glob_rule import ANY_DEPTH
from runward.handlers.layouts.places import is_storable

MOST_FILES: Final = 1000
"""Files that one glob may match."""

MOST_UNNAMED: Final = 3

MOST_DIRECTORIES: Final = 1000
"""Directories that are looked into for one glob."""

_WILD: Final = "*?["


@dataclass(slots=True)
class Matching:
    """The regular files that a glob matches, each with its signature, and the directories that were looked into.

    With a `problem`, this is unknown: the rest does not count.
    """

    files: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    problem: str | None = None
    unnamed: list[str] = field(default_factory=list)
    """The first files that match and whose names are not UTF-8, printable: their changes can't be reported."""


class _TooMany(Exception):
    """There are more than may be watched."""


def matching(glob: str) -> Matching:
    """What an absolute glob matches now."""
    names = [name for name in glob.split("/") if name]
    literal = next((at for at, name in enumerate(names) if _is_wild(name)), len(names) - 1)
    base = "/" + "/".join(names[:literal])
    found = Matching()
    try:
        for path, wanted in _walk(base, tuple(names[literal:]), found):
            if wanted:
                _add(found, path)
    except _TooMany as error:
        return Matching(problem=f"{glob} {error}, so its files are not watched: narrow it")
    except OSError as error:
        return Matching(problem=f"{error.filename or base} can't be read: {error.strerror}")
    if not found.directories:
        found.directories.append(_nearest(base))
    return found


def _is_wild(name: str) -> bool:
    return name == ANY_DEPTH or any(each in name for each in _WILD)


def _walk(base: str, pattern: tuple[str, ...], found: Matching) -> Iterator[tuple[str, bool]]:
    """The paths of all non-directories below `base`, and whether each one matches the rest of the glob."""
    waiting = [(base, frozenset(_after_any_depth(pattern, 0)))]
    while waiting:
        directory, places = waiting.pop()
        try:
            with os.scandir(directory) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        found.directories.append(directory)
        if len(found.directories) > MOST_DIRECTORIES:
            raise _TooMany(f"covers more than {MOST_DIRECTORIES} directories, such as {directory}")
        for entry in entries:
            further = _further(pattern, places, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if further - {len(pattern)}:
                    waiting.append((entry.path, further))
            else:
                yield entry.path, len(pattern) in further


def _further(pattern: tuple[str, ...], places: frozenset[int], name: str) -> frozenset[int]:
    """The position in the pattern after this name."""
    after: set[int] = set()
    for at in places:
        if at < len(pattern) and pattern[at] == ANY_DEPTH:
            after.update(_after_any_depth(pattern, at))
        elif at < len(pattern) and fnmatchcase(name, pattern[at]):
            after.update(_after_any_depth(pattern, at + 1))
    return frozenset(after)


def _after_any_depth(pattern: tuple[str, ...], at: int) -> Iterator[int]:
    yield at
    while at < len(pattern) and pattern[at] == ANY_DEPTH:
        at += 1
        yield at


def _add(found: Matching, path: str) -> None:
    if not is_storable(path):
        if len(found.unnamed) < MOST_UNNAMED:
            found.unnamed.append(os.fsencode(path).decode(errors="backslashreplace"))
        return
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        return
    found.files[path] = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    if len(found.files) > MOST_FILES:
        raise _TooMany(f"matches more than {MOST_FILES} files, such as {path}")


def _nearest(directory: str) -> str:
    """The directory itself, or its innermost existing ancestor."""
    while directory != "/" and not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory
