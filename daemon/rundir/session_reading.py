"""Reading a foreign session from its beginning to its present end: all its files through its scanner."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from runward.daemon.ports.session_reads import NOTHING_READ
from runward.daemon.rundir.opening import DIRECTORY, opened
from runward.daemon.rundir.session_files import SessionFiles
from runward.handlers.layouts.places import beside, unpacked_name
from runward.handlers.layouts.registry import DirectoryLayout, LogLayout, Scan
from runward.handlers.layouts.transcript import LogLine, Told
from runward.handlers.model.sessions import Complaint, Document

MOST_RETRIES: Final = 5
"""Times that a session's documents are read again because one may be half written."""

_RETRY_AFTER: Final = 0.05

_FIRST_LINES: Final = (1, 4, 16, 64)


class SessionRead(NamedTuple):
    """What a session's files say, and which of them couldn't be read.

    It also says when one of them last changed, and when the first attempt began (both Unix seconds).
    """

    told: Told
    changed_at: float | None
    obstacles: tuple[Complaint, ...]
    started_at: float | None = None


def read_session(
    layout: LogLayout | DirectoryLayout, path: str, was_read: Callable[[int], None] = lambda count: None
) -> SessionRead:
    """Read the session whose log, or directory, is at `path`. Unreadable files are reported; nothing is raised.

    `was_read` is called with the bytes of files as they are read.
    """
    directory, name = os.path.split(path)
    scanning = Scanning(layout.start(unpacked_name(name)), was_read)
    try:
        with opened(directory if isinstance(layout, LogLayout) else path, DIRECTORY) as within:
            files = SessionFiles(within, NOTHING_READ, time.time(), scanning)
            if isinstance(layout, LogLayout):
                os.stat(name, dir_fd=within, follow_symlinks=False)  # a missing one is reported
                files.log(within, name, unpacked_name(name))
                files.beginnings(beside(layout, name))
            else:
                _documents(files, layout)
                files.logs(layout.logs)
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        return SessionRead(scanning.scan.tell(), None, (Complaint(name, None, message, None),))
    told = scanning.scan.tell()
    started_at = scanning.began_at if told.attempt > 1 else told.started_at
    return SessionRead(told, files.changed_at, tuple(files.obstacles), started_at)


def _documents(files: SessionFiles, layout: DirectoryLayout) -> None:
    """The documents first: they may give the time zone of the times in the logs.

    Reading waits for them briefly, because some tools rewrite their files in place.
    """
    for retries_left in range(MOST_RETRIES, -1, -1):
        files.documents(layout.documents, withhold=retries_left > 0)
        if not files.withheld:
            return
        time.sleep(_RETRY_AFTER)


class Scanning:
    """Feeds a session's files to its scanner as they are read."""

    def __init__(self, scan: Scan, was_read: Callable[[int], None] = lambda count: None) -> None:
        self.scan = scan
        self.was_read = was_read
        self.began_at: float | None = None
        """When the first attempt began."""

    def take(self, name: str, lines: Sequence[LogLine]) -> None:
        if self.began_at is None:
            self.began_at = self._beginning(name, lines)
        self.scan, _ = self.scan.feed(name, lines)

    def _beginning(self, name: str, lines: Sequence[LogLine]) -> float | None:
        """When the session began, by its first lines; later ones may belong to a later attempt."""
        for count in _FIRST_LINES:
            told = self.scan.feed(name, lines[:count])[0].tell()
            if told.started_at is not None:
                return told.started_at
        return None

    def see(self, document: Document) -> None:
        self.scan = self.scan.see((document,))
