"""Reading one foreign session: what is new in its files, all of them from the beginning, which session it is, and its end."""

import errno
import math
import os
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.rundir.growing import Source
from runward.daemon.rundir.opening import (
    ABSENT,
    DIRECTORY,
    LINK,
    LISTED,
    REFUSED,
    ROOT,
    Gone,
    NotRegular,
    held,
    open_place,
    open_regular,
    opened,
    opened_below,
    unreadable,
)
from runward.daemon.rundir.run_directories import gone
from runward.daemon.rundir.session_files import (
    NOTHING_READ,
    AnotherLog,
    FilesRead,
    Gathered,
    LogPortion,
    LogRead,
    SessionFiles,
)
from runward.daemon.rundir.session_logs import CannotUnpack, Made, Unpacked
from runward.daemon.rundir.session_places import (
    HEAD,
    directory_signature,
    found_in,
    is_inside_session,
    log_at,
    log_by_its_place,
    made_log,
    recognise_head,
    recognise_inside,
)
from runward.handlers.layouts.layout import DirectoryLayout, Layouts, LogLayout, Scan, declared
from runward.handlers.layouts.places import (
    LOG,
    PACKED,
    DatabaseShape,
    before_globs,
    beside,
    directory_shape,
    documents_beside,
    mixed_shape,
    named,
    shape_of,
    unpacked_name,
)
from runward.handlers.layouts.transcript import LogLine, Told
from runward.handlers.model.files import Signature, Unreadable, signature_of
from runward.handlers.model.sessions import Complaint, Document

if TYPE_CHECKING:
    from runward.daemon.rundir.database_sessions import Found


class SessionSight(NamedTuple):
    """What a look at a session found.

    `signature` is the place's own, as it is listed. After `anew` nothing that was known before is valid: what follows
    is from the beginning of all the session's files. Documents are to be processed first, then the portions; only
    documents that differ, or may differ, are included. `read` is how far that is. `changed_at` is when the newest of
    the files changed (Unix seconds), `obstacles` those that can't be read. `more` says that there was more than may be
    read at once: look again. `withheld` says that a document is being written, `unsettled` that, or that something changed
    just now and may change again unnoticed: look again soon, or at `read.retry_at` if something failed.
    """

    signature: Signature
    anew: bool
    portions: tuple[LogPortion, ...]
    documents: tuple[Document, ...]
    read: FilesRead
    changed_at: float | None
    obstacles: tuple[Complaint, ...]
    more: bool
    withheld: bool
    unsettled: bool
    bytes_read: int


class Identity(NamedTuple):
    """Which session is at a place: its id in its tool, and the file or directory that it is in now."""

    layout: LogLayout | DirectoryLayout
    session_id: str
    is_subagent: bool
    device: int
    inode: int


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
        if isinstance(layout, LogLayout) and layout.database is not None:
            return look.at_made(found_in(layout.database, f"{root}/{place}")) or gone(root)
        with held(open_place(root, parents if isinstance(layout, LogLayout) else [*parents, name])) as within:
            if isinstance(layout, LogLayout):
                return look.at_log(within, name, layout) or gone(root)
            return look.in_directory(within, name, layout)
    except CannotUnpack as error:
        return Unreadable(f"{place} {error}")
    except OSError as error:
        return gone(root) if error.errno in ABSENT or error.errno == LINK else unreadable(error)


class _Look:
    def __init__(self, known: FilesRead, most_bytes: int, now: float) -> None:
        self._known = known
        self._most = most_bytes
        self._now = now

    def at_log(self, within: int, name: str, layout: LogLayout) -> SessionSight | None:
        log_file = log_at(within, name)
        if log_file is None:
            return None
        file, status = log_file

        def read(files: SessionFiles) -> None:
            files.documents(documents_beside(layout, name))
            files.log(within, file, name)
            files.logs(beside(layout, name))

        renamed = _renamed(self._known.logs, name)
        return self._sight(within, signature_of(status), self._known._replace(logs=renamed), read)

    def at_made(self, found: "Found") -> SessionSight | None:
        current = found.signature()
        if current is None:
            return None

        def read(files: SessionFiles) -> None:
            files.made(found, found.session, current)

        return self._sight(NO_DIRECTORY, current, self._known, read)

    def in_directory(self, directory: int, name: str, layout: DirectoryLayout) -> SessionSight:
        def read(files: SessionFiles) -> None:
            files.documents(named(layout.documents, name), signatures)
            files.logs(named(layout.logs, name), signatures, come_and_go=layout.logs_come_and_go)

        own, signatures = directory_signature(directory, name, directory_shape(layout))
        return self._sight(directory, own, self._known, read)

    def _sight(
        self, within: int, place_signature: Signature, known: FilesRead, read: Callable[[SessionFiles], None]
    ) -> SessionSight:
        gathered, anew = Gathered(), False
        files = SessionFiles(within, known, self._now, gathered, self._most)
        try:
            read(files)
        except AnotherLog:
            # The scanner's state contains the old log, so the lines of all files are needed from the first one on.
            gathered, anew = Gathered(), True
            nothing = FilesRead(failures=known.failures, retry_at=known.retry_at)
            files = SessionFiles(within, nothing, self._now, gathered, self._most)
            read(files)
        return SessionSight(
            signature=place_signature,
            anew=anew,
            portions=tuple(gathered.portions),
            documents=tuple(gathered.documents),
            read=files.read(),
            changed_at=files.changed_at,
            obstacles=tuple(files.obstacles),
            more=files.more,
            withheld=files.withheld,
            unsettled=files.withheld or files.changed_just_now,
            bytes_read=files.bytes_read,
        )


def _renamed(logs: tuple[LogRead, ...], name: str) -> tuple[LogRead, ...]:
    """The logs of a session whose own log, the first of them, may have had another name before."""
    if not logs or logs[0].name == name:
        return logs
    before, now = (each.removesuffix(LOG) + "/" for each in (logs[0].name, name))
    others = (each._replace(name=now + each.name.removeprefix(before)) for each in logs[1:])
    return (logs[0]._replace(name=name), *others)


NO_DIRECTORY: Final = -1
"""The directory of what is read otherwise than by a directory."""

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
        if isinstance(layout, LogLayout) and layout.database is not None:
            found = found_in(layout.database, path)
            current = found.signature()
            files = SessionFiles(NO_DIRECTORY, NOTHING_READ, time.time(), scanning)
            if current is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            files.made(found, name, current)
            return _session_read(scanning, files)
        with opened(directory if isinstance(layout, LogLayout) else path, DIRECTORY) as within:
            files = SessionFiles(within, NOTHING_READ, time.time(), scanning)
            if isinstance(layout, LogLayout):
                os.stat(name, dir_fd=within, follow_symlinks=False)  # a missing one is reported
                _documents(files, documents_beside(layout, name))
                files.log(within, name, unpacked_name(name))
                files.logs(beside(layout, name))
            else:
                _documents(files, named(layout.documents, name))
                files.logs(named(layout.logs, name))
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        return SessionRead(scanning.scan.tell(), None, (Complaint(name, None, message, None),))
    except CannotUnpack as error:
        return SessionRead(scanning.scan.tell(), None, (Complaint(name, None, str(error), None),))
    return _session_read(scanning, files)


def _session_read(scanning: "Scanning", files: SessionFiles) -> SessionRead:
    summary = scanning.scan.tell()
    started_at = scanning.began_at if summary.attempt > 1 else summary.started_at
    return SessionRead(summary, files.changed_at, tuple(files.obstacles), started_at)


def _documents(files: SessionFiles, wanted: Sequence[str]) -> None:
    """The documents first: they may give the time zone of the times in the logs.

    Reading waits for them briefly, because some tools rewrite their files in place.
    """
    for retries_left in range(MOST_RETRIES, -1, -1):
        files.documents(wanted, withhold=retries_left > 0)
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
            summary = self.scan.feed(name, lines[:count])[0].tell()
            if summary.started_at is not None:
                return summary.started_at
        return None

    def see(self, document: Document) -> None:
        self.scan = self.scan.see((document,))


MOST_NAMES: Final = 10_000
"""Entries of a directory that are looked at; a session has a handful."""


def identify(root: str, place: str, layouts: Layouts) -> Identity | Unreadable | None:
    """Identify the session at a place, if one of these layouts is there by now.

    For a packed log that can't be unpacked, the layout is guessed from its path.
    """
    *parents, name = place.split("/")
    try:
        for layout in layouts.logs:
            shape = shape_of(layout)
            if isinstance(shape, DatabaseShape) and shape.place_of(place) is not None:
                return _made(found_in(shape.database, f"{root}/{place}"), layout)
        with opened(root, ROOT) as top:
            if layouts.logs and layouts.directories and is_inside_session(top, parents, mixed_shape(layouts)):
                return None
            with opened_below(top, parents) as within:
                identity = _log(within, name, f"{root}/{place}", layouts) if layouts.logs else None
            if identity is not None or not layouts.directories:
                return identity
            with opened_below(top, [*parents, name]) as directory:
                return _directory(directory, name, layouts)
    except CannotUnpack as error:
        return Unreadable(f"{place} {error}")
    except OSError as error:
        return None if error.errno in ABSENT or error.errno == LINK else unreadable(error)


def _made(found: "Found", layout: LogLayout) -> Identity | None:
    current = found.signature()
    if current is None:
        return None
    # The row's id is the session's, so nothing has to be read for it.
    return Identity(layout, found.session, False, current.device, current.inode)


def _log(within: int, name: str, path: str, layouts: Layouts) -> Identity | None:
    log_file = log_at(within, name)
    if log_file is None:
        return None
    try:
        descriptor = open_regular(within, log_file[0])
    except NotRegular:
        return None
    try:
        status = os.fstat(descriptor)
        layout, head = recognise_head(descriptor, log_file[0], layouts)
    except CannotUnpack:
        layout, head = log_by_its_place(path, layouts), b""
    finally:
        os.close(descriptor)
    if layout is None:
        return None
    contents = head.split(b"\n")[:-1]
    lines = [LogLine(number, content) for number, content in enumerate(contents, 1)]
    scan, _ = layout.start(unpacked_name(name)).feed(unpacked_name(name), lines)
    return _identity(layout, scan, name.removesuffix(LOG), status)


def _directory(directory: int, name: str, layouts: Layouts) -> Identity | None:
    with opened(".", LISTED, directory) as listing, os.scandir(listing) as entries:
        names = frozenset(entry.name for entry in islice(entries, MOST_NAMES))
    layout = recognise_inside(directory, name, names, layouts)
    if not isinstance(layout, DirectoryLayout):
        return None
    scanning = Scanning(layout.start(name))
    # So late that no file counts as just written: what is there must do, because nobody waits here.
    files = SessionFiles(directory, NOTHING_READ, math.inf, scanning, HEAD)
    files.documents([each for each in named(layout.documents, name) if before_globs(each) == each])
    files.logs([each for each in named(layout.logs, name) if before_globs(each) == each])
    return _identity(layout, scanning.scan, name, os.fstat(directory))


def _identity(layout: LogLayout | DirectoryLayout, scan: Scan, name: str, status: os.stat_result) -> Identity:
    summary = scan.tell()
    return Identity(layout, summary.session_id or name, summary.is_subagent, status.st_dev, status.st_ino)


END_BYTES: Final = 4 << 20
"""Bytes before the end of a log in which the last message is looked for."""

MOST_UNPACKED: Final = 256 << 20
"""Bytes that are unpacked to get to the end of a packed log. Of a larger one, the last message is not known."""

_PIECE: Final = 1 << 20


def final_message(layout: str, path: str) -> str | Unreadable | None:
    """The last message of the agent whose log or directory is at `path`; None if there is none, or if nobody can read it.

    If the agent packed the log meanwhile, the packed log is read.
    """
    found = declared(layout).final_message
    if found is None:
        return None
    file, find = found
    if (made := made_log(layout, path)) is not None:
        try:
            return find(reversed(_end_of_made(made)))
        except CannotUnpack:
            return None
        except OSError as error:
            return None if error.errno in ABSENT | REFUSED | {LINK} else unreadable(error)
    directory, _, name = path.rpartition("/")
    if file is not None:
        directory, (name,) = path, named((file,), name)
    try:
        with opened(directory or "/", DIRECTORY) as within:
            lines = _lines_of(within, name)
    except (NotRegular, CannotUnpack):
        return None
    except OSError as error:
        return None if error.errno in ABSENT | REFUSED | {LINK} else unreadable(error)
    return find(reversed(lines))


def _lines_of(within: int, name: str) -> list[bytes]:
    """The whole lines at the end of a log, and the text after the last newline."""
    try:
        descriptor = open_regular(within, name)
    except FileNotFoundError:
        if name.endswith(PACKED):
            raise
        return _lines_of(within, f"{name}{PACKED}")
    with held(descriptor):
        return _last_unpacked(descriptor) if name.endswith(PACKED) else _last_lines(descriptor)


def _end_of_made(log: Made) -> list[bytes]:
    return _last_read(log.at(0))


def _last_unpacked(descriptor: int) -> list[bytes]:
    return _last_read(Unpacked(descriptor))


def _last_read(unpacked: Source) -> list[bytes]:
    end, count = b"", 0
    while piece := unpacked.read(_PIECE):
        count += len(piece)
        if count > MOST_UNPACKED:
            raise CannotUnpack(f"unpacks to more than {MOST_UNPACKED} bytes")
        end = end[-END_BYTES:] + piece
    lines = end[-END_BYTES:].split(b"\n")
    return lines[1:] if count > END_BYTES else lines


def _last_lines(descriptor: int) -> list[bytes]:
    size = os.fstat(descriptor).st_size
    start = max(0, size - END_BYTES)
    lines = os.pread(descriptor, END_BYTES, start).split(b"\n")
    return lines[1:] if start else lines
