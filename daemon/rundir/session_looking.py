"""Looking at one foreign session: what is new in its files since they were last read."""

import os
from collections.abc import Callable, Sequence

from runward.daemon.ports.files import Gone
from runward.daemon.ports.session_reads import FilesRead, LogPortion, SessionSight
from runward.daemon.rundir.looking import gone, signature
from runward.daemon.rundir.opening import ABSENT, LINK, open_place, unreadable
from runward.daemon.rundir.session_files import AnotherLog, SessionFiles
from runward.daemon.rundir.session_places import directory_signature, log_at
from runward.handlers.layouts.places import beside, directory_shape
from runward.handlers.layouts.registry import DirectoryLayout, LogLayout
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.model.sessions import Document, Signature
from runward.handlers.model.unreadable import Unreadable


def look_at_session(
    root: str,
    place: str,
    layout: LogLayout | DirectoryLayout,
    known: FilesRead,
    most_bytes: int,
    now: float,
) -> SessionSight | Unreadable | Gone:
    """What is new at a place since `known`, which may be from another place that was renamed to this one.

    About `most_bytes` are read, and at least one line if there is one. `now` is in Unix seconds.
    """
    look = _Look(known, most_bytes, now)
    *parents, name = place.split("/")
    try:
        within = open_place(root, parents if isinstance(layout, LogLayout) else [*parents, name])
        try:
            if isinstance(layout, LogLayout):
                return look.at_log(within, name, layout) or gone(root)
            return look.in_directory(within, layout)
        finally:
            os.close(within)
    except OSError as error:
        return gone(root) if error.errno in ABSENT or error.errno == LINK else unreadable(error)


class _Look:
    def __init__(self, known: FilesRead, most_bytes: int, now: float) -> None:
        self._known = known
        self._most = most_bytes
        self._now = now

    def at_log(self, within: int, name: str, layout: LogLayout) -> SessionSight | None:
        found = log_at(within, name)
        if found is None:
            return None
        file, status = found

        def read(files: SessionFiles) -> None:
            files.log(within, file, name)
            files.beginnings(beside(layout, name))

        renamed = tuple(each._replace(name=name) for each in self._known.logs)
        return self._sight(within, signature(status), self._known._replace(logs=renamed), read)

    def in_directory(self, directory: int, layout: DirectoryLayout) -> SessionSight:
        def read(files: SessionFiles) -> None:
            files.documents(layout.documents, found)
            files.logs(layout.logs, found, come_and_go=layout.logs_come_and_go)

        own, found = directory_signature(directory, directory_shape(layout))
        return self._sight(directory, own, self._known, read)

    def _sight(
        self, within: int, found: Signature, known: FilesRead, read: Callable[[SessionFiles], None]
    ) -> SessionSight:
        gathered, anew = _Gathered(), False
        files = SessionFiles(within, known, self._now, gathered, self._most)
        try:
            read(files)
        except AnotherLog:
            gathered, anew = _Gathered(), True
            nothing = FilesRead(failures=known.failures, retry_at=known.retry_at)
            files = SessionFiles(within, nothing, self._now, gathered, self._most)
            read(files)
        return SessionSight(
            signature=found,
            anew=anew,
            portions=tuple(gathered.portions),
            documents=tuple(gathered.documents),
            read=files.read(),
            changed_at=files.changed_at,
            obstacles=tuple(files.obstacles),
            more=files.more,
            unsettled=files.withheld or files.changed_just_now,
            bytes_read=files.bytes_read,
        )


class _Gathered:
    """What is new, as it was found."""

    def __init__(self) -> None:
        self.portions: list[LogPortion] = []
        self.documents: list[Document] = []

    def take(self, name: str, lines: Sequence[LogLine]) -> None:
        self.portions.append(LogPortion(name, lines))

    def see(self, document: Document) -> None:
        self.documents.append(document)

    def was_read(self, count: int) -> None:
        """Does nothing: `SessionFiles` counts the bytes itself."""
