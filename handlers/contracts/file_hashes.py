"""The results of hashing files. It imports little, because commands start with it."""

from typing import Final, Literal, NamedTuple, TypeAlias

MOST_GIB: Final = 8
"""The most that is hashed for one job, in GiB, holes included.

A file of a terabyte that is one hole costs nothing to make, so sizes on their own bound no work.
"""

HashState: TypeAlias = Literal[
    "hashed", "absent", "empty", "not_regular", "outside", "denied", "changing", "unreadable", "too_large"
]


class FileHash(NamedTuple):
    """The result of hashing one file.

    `size` in bytes and `modified_ns` are those of what was hashed, `sha256` is in hex. `changing` means that the file
    was written to meanwhile.
    """

    state: HashState
    size: int = 0
    modified_ns: int = 0
    sha256: str | None = None


class RootHashes(NamedTuple):
    """The answer to `HashesOf`: whether the root is a directory, and the result for each path."""

    exists: bool
    files: tuple[FileHash, ...] = ()
