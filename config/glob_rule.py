"""Globs: which texts are globs, and what they match. Case always matters, and a dot is not special.

In a text `*` is anything (also `/` and line breaks), `?` one character, `[abc]`, `[a-z]` and `[!a]` one of a set;
the whole text must match. In a path these stay within one name, and `**` as a whole name is any number of names,
including none: `/srv/app/**` matches `/srv/app` and everything below it.
"""

import posixpath
import re
from fnmatch import fnmatchcase
from typing import Final

from runward.config.problem import TextError

ANY_DEPTH: Final = "**"


class GlobError(TextError):
    """A text that is not a glob."""


def check_text_glob(pattern: str) -> None:
    """Raise `GlobError` if `pattern` is not a glob of a text."""
    at = pattern.find("[")
    while at != -1:
        # fnmatch takes a bracket that is never closed for itself, which its author did not mean.
        end = _end_of_set(pattern, at)
        _check_ranges(pattern[at + 1 : end].removeprefix("!"))
        at = pattern.find("[", end)


def check_path_glob(pattern: str) -> None:
    """Raise `GlobError` if `pattern` is not a glob of a path."""
    for name in pattern.split("/"):
        if name == "..":
            raise GlobError("has a '..' in it", "write the whole path")
        if ANY_DEPTH in name and name != ANY_DEPTH:
            raise GlobError(
                f"has '**' next to other characters: '{name}'", "put it between slashes, or use '*'"
            )
        check_text_glob(name)


def escaped(text: str) -> str:
    """The glob that matches `text` and nothing else."""
    return re.sub(r"([*?[])", r"[\1]", text)


def text_matches(text: str, pattern: str) -> bool:
    """Whether the whole of `text` matches."""
    return fnmatchcase(text, pattern)


def path_matches(path: str, pattern: str) -> bool:
    """Whether the absolute `path` matches the absolute `pattern`, name by name. `.` and `..` are first resolved."""
    if not path.startswith("/"):
        return False
    wanted = _names(pattern)
    # All positions in the pattern are followed at once. Trying one way after another would take exponential time for a
    # pattern with many `**`.
    standing = _with_none_for_any_depth({0}, wanted)
    for name in _names(posixpath.normpath(path)):
        further = {
            at if wanted[at] == ANY_DEPTH else at + 1
            for at in standing
            if at < len(wanted) and (wanted[at] == ANY_DEPTH or fnmatchcase(name, wanted[at]))
        }
        standing = _with_none_for_any_depth(further, wanted)
    return len(wanted) in standing


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _with_none_for_any_depth(standing: set[int], wanted: list[str]) -> set[int]:
    """The positions in `wanted` that can be reached, given that each `**` may also match no name."""
    reached = set(standing)
    for at in standing:
        while at < len(wanted) and wanted[at] == ANY_DEPTH:
            at += 1
            reached.add(at)
    return reached


def _end_of_set(pattern: str, start: int) -> int:
    """Where the set that starts at `start` is closed. A `]` that comes first in it is one of its characters."""
    first = start + 1 + pattern.startswith("!", start + 1)
    end = pattern.find("]", first + 1)
    if end == -1:
        raise GlobError("has a '[' that is never closed", "close it; '[[]' is the character itself")
    return end


def _check_ranges(members: str) -> None:
    for pair in re.finditer(r"(?s)(.)-(.)", members):
        if pair[1] > pair[2]:
            raise GlobError(f"has an empty range in it: '{pair[0]}'", "write the lower end first")
