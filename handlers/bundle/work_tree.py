"""What git says about the session's working directory: commits and changed lines since the session's start."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.handlers.bundle.edits import FileEdit

MOST_COMMITS: Final = 200
MOST_FILES: Final = 1000


class WorkTree(NamedTuple):
    """The subjects of the commits, oldest first, and the files that differ, by their paths below `top`."""

    top: str
    commits: tuple[str, ...]
    files: tuple[FileEdit, ...]


def subjects(text: str) -> tuple[str, ...]:
    """The subjects in the output of `git log -z --format=%s`, which has the newest first."""
    return tuple(reversed([each for each in text.split("\0") if each][:MOST_COMMITS]))


def changed(text: str) -> tuple[FileEdit, ...]:
    """The files in the output of `git diff --numstat -z`. The lines of a binary file are not counted."""
    found: list[FileEdit] = []
    for entry in text.split("\0")[:MOST_FILES]:
        counts = entry.split("\t", 2)
        if len(counts) == 3:
            added, removed, path = counts
            known = added.isdecimal() and removed.isdecimal()
            found.append(FileEdit(path, int(added) + int(removed) if known else None))
    return tuple(found)


def with_git(own: Sequence[FileEdit], top: str, files: Sequence[FileEdit]) -> tuple[FileEdit, ...]:
    """The session's own edits and what git found, each file once, as git counts it."""
    prefix = top.rstrip("/") + "/"
    found = {prefix + each.path: each for each in files}
    counted = {each.path: each for each in own}
    for path, each in found.items():
        counted[path] = FileEdit(path, each.lines_changed)
    return tuple(counted.values())
