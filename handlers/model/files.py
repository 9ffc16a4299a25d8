"""What is found where files are expected, or why that can't be read. And hashes.

It imports little, because commands and launchers start with it.
"""

import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

from runward.config.problem import quoted

if TYPE_CHECKING:
    from runward.config.artifact_rules import ArtifactRules


MOST_GIB: Final = 8
"""The most that is hashed for one job, in GiB, holes included.

A file of a terabyte that is one hole costs nothing to make, so sizes on their own bound no work.
"""


class Signature(NamedTuple):
    """Tells one version of a file from the next without reading it. Times are in ns; no program can set `changed_ns`.

    Earlier versions stored only the first three fields. No file has the others' defaults, so each such file is read once more.
    """

    inode: int
    size: int
    modified_ns: int
    device: int = 0
    changed_ns: int = 0


class Status(Protocol):
    """What the kernel says about a file or directory: an `os.stat_result`."""

    @property
    def st_ino(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_dev(self) -> int: ...
    @property
    def st_ctime_ns(self) -> int: ...


def signature_of(status: Status) -> Signature:
    """The signature of the file or directory with this status."""
    return Signature(status.st_ino, status.st_size, status.st_mtime_ns, status.st_dev, status.st_ctime_ns)


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

    def for_each(self, count: int) -> tuple[FileHash, ...]:
        """The result for each of so many paths. If the root has vanished, so have all files."""
        return self.files if self.exists else (FileHash("absent"),) * count


FileProblem: TypeAlias = Literal[
    "gone",
    "empty",
    "not_regular",
    "outside",
    "denied",
    "unreadable",
    "changing",
    "changed",
    "too_large",
]
"""A `changed` file has a hash, but not that of what was verified. The others have none."""


MEANINGS: Final[Mapping[str, str]] = {
    "gone": "is gone",
    "empty": "is empty",
    "not_regular": "is not a regular file",
    "outside": "leads outside the root",
    "denied": "is not readable by the daemon",
    "unreadable": "can't be read",
    "changing": "was written to each time while it was hashed",
    "changed": "was changed between its verification and its hash",
    "too_large": f"is not hashed: the limit is {MOST_GIB} GiB for one attempt",
}


DeliveryState: TypeAlias = Literal["passed", "partial", "missing", "invalid"]


FileState: TypeAlias = Literal[
    "file", "absent", "empty", "not_regular", "outside", "denied", "unfit", "excused"
]
"""`unfit` means present, but breaking a rule of its entry. `excused` means absent, and allowed to be."""


class RuleFact(NamedTuple):
    """Whether one rule of an entry is fulfilled, named by the entry's key, and for which file.

    `reason` says what was found, `line` where in the file, counted from 1.
    """

    rule: str
    path: str
    holds: bool
    reason: str
    line: int | None = None


class Match(NamedTuple):
    """One file that a glob found: its path below the root, its size in bytes and its modification time (ns)."""

    path: str
    size: int
    modified_ns: int


class FileFact(NamedTuple):
    """What was found at one path: its size in bytes and modification time (ns) if it is a file.

    An entry with rules also has their results, and an entry with a glob the files that it found. If it is absent, `near` is
    the path of a file that is nearly it, from the root.
    """

    state: FileState
    size: int = 0
    modified_ns: int = 0
    rules: tuple[RuleFact, ...] = ()
    matches: tuple[Match, ...] = ()
    near: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether nothing is missing."""
        return self.state in ("file", "excused")


class RuledPath(NamedTuple):
    """An entry with rules, to be looked at. A `fresh` file was modified after `since_ns`."""

    path: str
    rules: "ArtifactRules"
    since_ns: int

    @property
    def file(self) -> str | None:
        """The path of the one file that it is about. None for a glob or an outcome."""
        return self.path if self.rules.path is None else None


class RootFacts(NamedTuple):
    """The answer to `ArtifactsUnder`: whether the root is a directory, and a fact for each path."""

    exists: bool
    files: tuple[FileFact, ...] = ()

    def for_each(self, count: int) -> tuple[FileFact, ...]:
        """A fact for each of `count` entries. Without a directory, no file is there."""
        return self.files if self.exists else self.files or (FileFact("absent"),) * count


class Produced(NamedTuple):
    """An expected artifact that was there: a regular file with `size` bytes (at least one); its time in ns."""

    id: str
    path: str
    size: int
    modified_ns: int = 0


class Unreadable(NamedTuple):
    """An answer that couldn't be had, and why. Trying again later may help."""

    why: str


RULES: Final = "rules"
"""The key of the stored verification that ADR-0029's object doesn't have."""


def there_is(near: str, wanted: str) -> str:
    """Names the file that is nearly the one that is `wanted`, or one of a glob. Names that look the same are spelled out."""
    shown, meant = unicodedata.normalize("NFC", near), unicodedata.normalize("NFC", wanted)
    if shown == meant or (not shown.isascii() and _matches(shown, meant)):
        return f"there is {near!a}, in another Unicode form than {wanted!a}"
    return f"there is {quoted(near)}"


def _matches(path: str, glob: str) -> bool:
    from runward.config.glob_rule import path_matches  # only what is nearly there pays for this

    return path_matches(f"/{path}", f"/{glob}")
