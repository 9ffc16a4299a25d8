"""What is in the operator's directories, listed again only if a directory's own mark is new: each use costs one `stat`.

Imports stay cheap, for the launcher's start-up.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.handlers.model.files import Signature, signature_of

if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["file", "directory", "link", "other"]

LATELY_NS: Final = 200_000_000
"""What changed less than this ago may change again within the same tick of the file system's clock."""


class Listed(NamedTuple):
    """An entry of a directory. What a link leads to may change although its directory does not."""

    name: str
    path: str
    kind: Kind

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file, or leads to one now."""
        return self.kind == "file" or (self.kind == "link" and os.path.isfile(self.path))

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory, or leads to one now."""
        return self.kind == "directory" or (self.kind == "link" and os.path.isdir(self.path))


_known: Final[dict[str, tuple[Signature, tuple[Listed, ...]]]] = {}


def listed(directory: str) -> tuple[Listed, ...]:
    """The entries of a directory now. Raises `OSError`."""
    # The time and the mark come before the listing: what changes in between has another mark, and is listed next time.
    began = time.time_ns()
    mark = signature_of(os.stat(directory))
    known = _known.get(directory)
    if known is not None and known[0] == mark:
        return known[1]
    with os.scandir(directory) as found:
        entries = tuple(Listed(entry.name, entry.path, _kind(entry)) for entry in found)
    # A second change within one tick of the clock leaves the mark as it is, so a young mark is not trusted.
    if is_quiet(mark.changed_ns, began, time.time_ns()):
        _known[directory] = mark, entries
    return entries


def is_quiet(changed_ns: int, first: int, last: int) -> bool:
    """Whether the last change is so long ago that the next one will have another time.

    The look began at `first` and was over at `last` (Unix nanoseconds): it may last long on a busy machine. The clock of a
    file server may go a little ahead. A clock that was set back makes nothing young.
    """
    return not first - LATELY_NS < changed_ns < last + LATELY_NS


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "directory" if entry.is_dir(follow_symlinks=False) else "other"
