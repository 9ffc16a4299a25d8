"""What the run of a step left on the disk, file by file, and what of that an approval can't cover.

It imports little, because commands start with it.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.model.files import MOST_GIB

MOST_LISTED: Final = 1000
"""Files of an approval that are shown one by one. The others are bound together."""

MOST_SEEN: Final = 100_000
"""Entries of directories that are looked at for an approval."""

MOST_SEEN_ELSEWHERE: Final = 400_000
"""As `MOST_SEEN`, for all the directories outside the run directories together."""

ELSEWHERE: Final = (
    "what steps did elsewhere: in other directories, in branches of a repository, over the network"
)
"""What an approval never covers, in words for the person."""


UNBOUND: Final = frozenset({"denied", "unreadable", "changing", "not_listed"})
"""States in which nothing says later that a file is still the same: a person approves only without it."""


STATES: Final[Mapping[str, str]] = {
    "absent": "is gone",
    "empty": "is empty",
    "not_regular": "is not a regular file",
    "outside": "leads outside the artifacts",
    "denied": "is not readable by the daemon",
    "unreadable": "can't be read",
    "changing": "was written to each time while it was hashed",
    "too_large": f"is not hashed, because more than {MOST_GIB} GiB would be: it is known by its inode, size and times",
    "not_listed": "has too many entries, or too deep ones, to be shown",
}
"""What the state of a file means that has no hash."""


def hash_of(value: dict[str, JsonValue], without: Collection[str] = ()) -> str:
    """The hash of what is shown (SHA-256, hex), apart from the files with these paths."""
    artifacts = [each for each in artifacts_in(value) if each["path"] not in without]
    text = json.dumps({**value, "artifacts": artifacts}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def artifacts_in(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """The files among what is shown."""
    files = value.get("artifacts") if isinstance(value, dict) else None
    for each in files if isinstance(files, list) else ():
        if isinstance(each, dict):
            yield each


def paths_in(value: JsonValue) -> set[str]:
    """The paths of the files among what is shown."""
    return {str(each["path"]) for each in artifacts_in(value)}


def as_lines(value: JsonValue) -> list[str]:
    """The files among what is shown, one a line."""
    return [f"step {each['step']}  {each['path']}  {_in_words(each)}" for each in artifacts_in(value)]


def _in_words(file: dict[str, JsonValue]) -> str:
    match file["state"]:
        case "hashed":
            size = f"  {file['size']} bytes" if "size" in file else ""
            return f"sha256:{file['sha256']}{size}"
        case "link":
            return f"is a link to {file['target']}"
        case "many":
            return f"and {file['files']} more files, bound together as sha256:{file['sha256']}"
        case "commit":
            staged = f", with staged changes sha256:{file['sha256']}" if file["sha256"] else ""
            return f"is a worktree at commit {file['target']}{staged}"
    what = STATES.get(str(file["state"]), str(file["state"]))
    return f"{what} ({file['size']} bytes)" if "size" in file else what


def unbound(value: JsonValue) -> dict[str, str]:
    """The files among what is shown that nothing binds, by path, with what they are."""
    return {
        str(each["path"]): STATES[str(each["state"])]
        for each in artifacts_in(value)
        if each["state"] in UNBOUND
    }


def why_not_without(value: JsonValue, without: Collection[str]) -> str | None:
    """Why what is shown can't be approved without just these files; None if it can."""
    unknown = [each for each in without if each not in paths_in(value)]
    if unknown:
        return f"{', '.join(unknown)}: no such file is among what was shown"
    left = {path: what for path, what in unbound(value).items() if path not in without}
    if left:
        named = ", ".join(f"{path} {what}" for path, what in list(left.items())[:5])
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        words = " ".join(f"--without {path}" for path in list(left)[:5])
        return f"the approval can't cover {named}{more}; approve without: {words}"
    return None
