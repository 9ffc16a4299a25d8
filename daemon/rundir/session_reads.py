"""What is seen of a foreign session, and how far its files were read, which is stored between two looks."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.handlers.layouts.registry import DirectoryLayout, LogLayout
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.model.sessions import Complaint, Document, Signature


class Cursor(NamedTuple):
    """How far a log was read: its device and inode, the bytes (unpacked) and lines before here, and the hash of the
    last of these bytes. `in_long_line`: the line that begins before here was given already, as cut. `packed` is the
    size of a packed file that was read to its end (or its earlier size, if it grew meanwhile). `unended`: the last
    line before here was given before its newline came.
    """

    device: int = 0
    inode: int = 0
    offset: int = 0
    lines: int = 0
    before: str = ""
    in_long_line: bool = False
    packed: int = 0
    version: int = 1
    unended: bool = False


UNREAD: Final = Cursor()


VERSION: Final = 2
"""The version of the stored state of a session's files. Up to 1, a last line without its newline was left unread."""

NOT_KNOWN: Final[Signature] = (0, 0, 0)
"""A signature that no file has, so the place is always looked at again."""


class LogRead(NamedTuple):
    """How far one log was read, and its signature when it was read to its end.

    `failed` is the problem that reading ended with, or that the log itself ends with: the end of a sentence that starts with the log's name.
    `may_pass`: the operating system refused, so it is tried again even if the file stays as it is.
    """

    name: str
    cursor: Cursor = UNREAD
    signature: Signature = NOT_KNOWN
    failed: str = ""
    may_pass: bool = False


class FilesRead(NamedTuple):
    """How far the files of a session were read.

    `listed` are the directories in which files are found by globs, as they were when they were listed, and `beside`
    the hashed names of the further logs whose beginnings were given. `failures` counts the readings in a row that
    failed; what failed isn't tried again before `retry_at` (Unix seconds), at which somebody should look again.
    """

    logs: tuple[LogRead, ...] = ()
    documents: tuple[tuple[str, Signature], ...] = ()
    listed: tuple[tuple[str, Signature], ...] = ()
    beside: tuple[str, ...] = ()
    failures: int = 0
    retry_at: float = 0.0
    version: int = VERSION


NOTHING_READ: Final = FilesRead()


class LogPortion(NamedTuple):
    """The next whole lines of a log. `name` is its path relative to the session's place, as if it weren't packed."""

    name: str
    lines: Sequence[LogLine]


class SessionSight(NamedTuple):
    """What a look at a session found.

    `signature` is the place's own, as it is listed. After `anew` nothing that was known before is valid: what follows
    is from the beginning of all the session's files. Documents are to be processed first, then the portions; only
    documents that differ, or may differ, are included. `read` is how far that is. `changed_at` is when the newest of
    the files changed (Unix seconds), `obstacles` those that can't be read. `more` says that there was more than may be
    read at once: look again. `unsettled` says that a document is being written, or that something changed just now, and
    may change again unnoticed: look again soon, or at `read.retry_at` if something failed.
    """

    signature: Signature
    anew: bool
    portions: tuple[LogPortion, ...]
    documents: tuple[Document, ...]
    read: FilesRead
    changed_at: float | None
    obstacles: tuple[Complaint, ...]
    more: bool
    unsettled: bool
    bytes_read: int


class Identity(NamedTuple):
    """Which session is at a place: its id in its tool, and the file or directory that it is in now."""

    layout: LogLayout | DirectoryLayout
    session_id: str
    is_subagent: bool
    device: int
    inode: int


def brought_up(read: FilesRead) -> FilesRead:
    """What this version or the one before stored; each log is then read from there. Raises `ValueError`."""
    if read.version == VERSION:
        return read
    if read.version != 1:
        raise ValueError(f"version {read.version} of what was read of a session's files is not known")
    logs = tuple(log._replace(signature=NOT_KNOWN) for log in read.logs)
    return read._replace(logs=logs, version=VERSION)
