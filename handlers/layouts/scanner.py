"""What a layout's scanner is given and what it gives back.

A scanner is a parser without input and output: its state and what is new go in, its new state
and items come out. `daemon/rundir/` reads; `handlers/sessions/observe.py` draws the conclusions.
"""

from typing import Literal, NamedTuple, TypeAlias

from runward.handlers.events import SessionDeclaration, Status

Signature: TypeAlias = tuple[int, int, int]
"""What tells one version of a file from another without reading it: inode, size, mtime in ns."""


class Document(NamedTuple):
    """A file of the run directory: its bytes where it could be read, else the reason why not.

    `modified_at` is its modification time in Unix seconds.
    """

    name: str
    signature: Signature
    modified_at: float
    content: bytes = b""
    problem: str | None = None


class RecordedProcess(NamedTuple):
    """A process as a run's own file names it: by pid, start time (clock ticks) and boot."""

    pid: int
    start_ticks: int
    boot_id: str


class Started(NamedTuple):
    """`file` says that a run began. `digest` tells one beginning from another."""

    file: str
    digest: str
    at: float
    declaration: SessionDeclaration
    launcher: RecordedProcess | None
    host: str | None


class ProcessNamed(NamedTuple):
    """The files name the process of the command itself."""

    process: RecordedProcess


class Ended(NamedTuple):
    """`file` says that the run is over, and how. `digest` tells one end from another."""

    file: str
    digest: str
    at: float
    status: Status
    reason_code: str
    reason_summary: str
    exit_code: int | None
    signal: int | None
    declared_by: Literal["daemon", "launcher"]


class Complaint(NamedTuple):
    """A file of the agent's is ill-formed: where, what is wrong, and what to do."""

    file: str
    line: int | None
    message: str
    mend: str | None


Item: TypeAlias = Started | ProcessNamed | Ended | Complaint
