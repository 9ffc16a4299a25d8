"""What git says about the session's working directory: commits and changed lines since the session's start."""

from collections.abc import Collection, Sequence
from typing import Final

from runward.handlers.model.bundle import FileEdit

MOST_COMMITS: Final = 200
MOST_FILES: Final = 1000


def subjects(text: str, unsure: Collection[str] = ()) -> tuple[str, ...]:
    """The subjects in the output of `git log -z --format="%H %s"`, which has the newest first.

    `unsure` are the commits that may have been made before the session began.
    """
    found: list[str] = []
    for entry in [each for each in text.split("\0") if each][:MOST_COMMITS]:
        commit, _, subject = entry.partition(" ")
        found.append(f"{subject} (in the second in which the session began)" if commit in unsure else subject)
    return tuple(reversed(found))


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
        known = counted.get(path)
        lines = (
            known.lines_changed if each.lines_changed is None and known is not None else each.lines_changed
        )
        counted[path] = FileEdit(path, lines)
    return tuple(counted.values())
