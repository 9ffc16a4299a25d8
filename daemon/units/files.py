"""Unit files on the disk: installed, updated, removed; and what a person changed is kept."""

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Final, Literal

from runward.daemon.disk.durable import sync_directory, write_durably

Deed = Literal["written", "updated", "unchanged", "removed", "absent"]

KEPT: Final = ".kept"
"""The suffix of a file that a person has changed: systemd doesn't read such a file."""

_SEAL: Final = re.compile(r"# Written by `runward daemon install` \(([0-9a-f]{16})\)[^\n]*\n")
_MAXIMUM: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one file, and where a person's changes are kept, if there are any."""

    path: str
    deed: Deed
    kept: str | None = None


def plan(path: str, text: str | None) -> Change:
    """What is needed for `path` to hold `text`; None: for nothing to be there. Raises `OSError`."""
    there = _read(path)
    if there is None:
        return Change(path, "absent" if text is None else "written")
    if text is not None and there == sealed(text):
        return Change(path, "unchanged")
    kept = None if is_untouched(there) else _free(f"{path}{KEPT}")
    return Change(path, "removed" if text is None else "updated", kept)


def carry_out(change: Change, text: str | None) -> None:
    """Carry out the plan. Raises `OSError`."""
    directory, name = os.path.split(change.path)
    if change.kept is not None:
        os.rename(change.path, change.kept)
    if change.deed in ("written", "updated") and text is not None:
        os.makedirs(directory, exist_ok=True)
        write_durably(directory, name, sealed(text).encode())
        os.chmod(change.path, 0o644)
    elif change.deed == "removed" and change.kept is None:
        os.unlink(change.path)
    if change.deed == "removed":
        sync_directory(directory)


def sealed(text: str) -> str:
    """The text after a line that shows later whether a person has changed it."""
    return f"# Written by `runward daemon install` ({_digest(text)}). Put changes into a drop-in: systemctl edit\n{text}"


def is_untouched(text: str) -> bool:
    """Whether this is exactly what some version of us has sealed."""
    seal = _SEAL.match(text)
    return seal is not None and seal.group(1) == _digest(text[seal.end() :])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _read(path: str) -> str | None:
    """The content; a link (systemd masks units this way) counts as what it leads to."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_MAXIMUM)
    except FileNotFoundError:
        return "" if os.path.islink(path) else None


def _free(path: str) -> str:
    """`path`, or with a number appended, such that nothing is there."""
    candidate, number = path, 1
    while os.path.lexists(candidate):
        number += 1
        candidate = f"{path}{number}"
    return candidate
