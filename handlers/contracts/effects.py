"""What can be ordered for contracts: rows with what was produced."""

from typing import NamedTuple, TypeAlias

from runward.handlers.contracts.file_problems import FileProblem


class RecordedFile(NamedTuple):
    """A produced file with its hash (hex), or with the problem why it has none. A `changed` file has both.

    `size` in bytes and `modified_ns` are those of what was hashed, else those from when it was verified.
    """

    id: str
    path: str
    size: int
    modified_ns: int
    sha256: str | None
    problem: FileProblem | None


class RecordFiles(NamedTuple):
    """Store the hashes of what an attempt produced, one for each file."""

    key: str
    attempt: int
    files: tuple[RecordedFile, ...]


ContractEffect: TypeAlias = RecordFiles
