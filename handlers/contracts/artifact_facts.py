"""What lies where artifacts are expected. A leaf of the imports, for commands and launchers start with it."""

from typing import Literal, NamedTuple, TypeAlias

FileState: TypeAlias = Literal["file", "absent", "empty", "not_regular", "outside", "denied"]


class FileFact(NamedTuple):
    """What lies at one path: its size in bytes and modification time (ns) where it is a file."""

    state: FileState
    size: int = 0
    modified_ns: int = 0


class RootFacts(NamedTuple):
    """The answer to `ArtifactsUnder`: whether the root is a directory, and a fact for each path."""

    exists: bool
    files: tuple[FileFact, ...] = ()


class Produced(NamedTuple):
    """An expected artifact that was there: a regular file with `size` bytes, more than none; its time in ns."""

    id: str
    path: str
    size: int
    modified_ns: int = 0
