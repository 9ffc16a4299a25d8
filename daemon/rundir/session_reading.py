"""Reading a session of another tool's from its beginning to what is there now: all its files through its scanner."""

import fnmatch
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from runward.daemon.rundir.growing import UNREAD, growing, read
from runward.daemon.rundir.looking import document_at
from runward.daemon.rundir.opening import DIRECTORY, open_below
from runward.daemon.rundir.tailing import NotRegular
from runward.daemon.rundir.unpacking import CannotUnpack
from runward.handlers.layouts.foreign_json import NotJson, read_json
from runward.handlers.layouts.places import unpacked_name
from runward.handlers.layouts.registry import DirectoryLayout, LogLayout, Scan
from runward.handlers.layouts.scanner import Complaint, Document
from runward.handlers.layouts.transcript import Told

MOST_FILES: Final = 10_000
"""Files of one session that a glob stands for."""

MOST_RETRIES: Final = 5
"""Times that a session's documents are read again because one may be half written."""

_RETRY_AFTER: Final = 0.05
_JUST_WRITTEN: Final = 2.0
_BEGINNING: Final = 16 << 10


class SessionRead(NamedTuple):
    """What a session's files tell, when one of them last changed (Unix seconds), and which couldn't be read."""

    told: Told
    changed_at: float | None
    hindrances: tuple[Complaint, ...]


def read_session(
    layout: LogLayout | DirectoryLayout, path: str, was_read: Callable[[int], None] = lambda count: None
) -> SessionRead:
    """Read the session whose log, or directory, stands at `path`. What can't be read is told, and raises nothing.

    `was_read` is called with the bytes of logs as they are read.
    """
    reading = _Reading(layout.start(unpacked_name(os.path.basename(path))), was_read)
    if isinstance(layout, LogLayout):
        directory, name = os.path.split(path)
        reading.log(directory, name)
        beside = tuple(each.replace("{name}", name.partition(".")[0]) for each in layout.beside)
        for each in _matching(directory, beside):
            reading.beginning(directory, each)
    else:
        reading.directory(path, layout)
    return SessionRead(reading.scan.tell(), reading.changed_at, tuple(reading.hindrances))


class _Reading:
    def __init__(self, scan: Scan, was_read: Callable[[int], None]) -> None:
        self.scan = scan
        self._was_read = was_read
        self.changed_at: float | None = None
        self.hindrances: list[Complaint] = []
        self._patience = MOST_RETRIES

    def directory(self, path: str, layout: DirectoryLayout) -> None:
        """The documents first: they may say in which zone the times in the logs are."""
        for name in _matching(path, layout.documents):
            self.document(path, name)
        for name in _matching(path, layout.logs):
            self.log(path, name)

    def log(self, directory: str, name: str) -> None:
        path = f"{directory}/{name}"
        try:
            with growing(path, UNREAD) as log:
                self._changed(log.changed_at())
                more, before = True, 0
                while more:
                    portion = log.portion()
                    self._was_read(portion.cursor.offset - before)
                    before = portion.cursor.offset
                    if portion.lines:
                        self.scan, _ = self.scan.feed(unpacked_name(name), portion.lines)
                    more = portion.more
        except (OSError, NotRegular, CannotUnpack) as error:
            self._hindered(name, error)

    def beginning(self, directory: str, name: str) -> None:
        """The first lines of a log that tells only little of this session: of one that is in the way, nothing."""
        try:
            portion = read(f"{directory}/{name}", UNREAD, _BEGINNING)
        except (OSError, NotRegular, CannotUnpack):
            return
        self.scan, _ = self.scan.feed(unpacked_name(name), portion.lines)

    def document(self, directory: str, name: str) -> None:
        """A small file that is written whole; one that a link leads to isn't the session's own."""
        *parents, last = name.split("/")
        try:
            within = os.open(directory, DIRECTORY)
            try:
                if parents:
                    below = open_below(within, parents)
                    os.close(within)
                    within = below
                document = self._whole(within, last)
            finally:
                os.close(within)
        except OSError as error:
            self._hindered(name, error)
            return
        if document is not None:
            self._changed(document.modified_at)
            self.scan = self.scan.see((document._replace(name=name),))

    def _whole(self, within: int, name: str) -> Document | None:
        """A document as it stands, not as it is just being written: some tools write theirs anew in place."""
        while True:
            document = document_at(within, name)
            if document is None or document.problem is not None or not self._patience:
                return document
            is_new = abs(time.time() - document.modified_at) < _JUST_WRITTEN
            if not is_new or not isinstance(read_json(document.content), NotJson):
                return document
            self._patience -= 1
            time.sleep(_RETRY_AFTER)

    def _changed(self, at: float) -> None:
        self.changed_at = at if self.changed_at is None else max(at, self.changed_at)

    def _hindered(self, name: str, error: Exception) -> None:
        if isinstance(error, NotRegular):
            message = "is not a regular file"
        else:
            message = f"can't be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        self.hindrances.append(Complaint(name, None, message, None))


def _matching(directory: str, wanted: tuple[str, ...]) -> Iterator[str]:
    """The files in a session's directory that are wanted, in order; the last part of a wanted one may be a glob."""
    for path in wanted:
        parent, _, last = path.rpartition("/")
        within = f"{directory}/{parent}" if parent else directory
        if not any(character in last for character in "*?["):
            if os.path.lexists(f"{within}/{last}"):
                yield path
            continue
        for name in _names(within):
            if fnmatch.fnmatchcase(name, last):
                yield f"{parent}/{name}" if parent else name


def _names(directory: str) -> list[str]:
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode):
            return []
        with os.scandir(directory) as entries:
            return sorted(entry.name for _, entry in zip(range(MOST_FILES), entries, strict=False))
    except OSError:
        return []
