"""The files of one foreign session: what is new in them, given what is already known.

What is new goes to the caller, in the order in which it is found. Nothing here knows the scanners.
"""

import fnmatch
import math
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from runward.config.json_value import is_text
from runward.daemon.rundir.opening import (
    ABSENT,
    LINK,
    LISTED,
    NotRegular,
    held,
    open_below,
    open_regular,
    opened,
)
from runward.daemon.rundir.run_directories import RACY, document_at
from runward.daemon.rundir.session_logs import MOST_BYTES, UNREAD, CannotUnpack, Cursor, Growing, Made
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.places import PACKED, is_glob
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.layouts.transcript_lines import is_plain
from runward.handlers.model.files import Signature, signature_of
from runward.handlers.model.sessions import Complaint, Document

VERSION: Final = 2
"""The version of the stored state of a session's files. Up to 1, a last line without its newline was left unread."""


NOT_KNOWN: Final = Signature(0, 0, 0)
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

    `listed` are the directories in which files are found by globs, as they were when they were listed. `failures`
    counts the readings in a row that failed; what failed isn't tried again before `retry_at` (Unix seconds), at which
    somebody should look again.
    """

    logs: tuple[LogRead, ...] = ()
    documents: tuple[tuple[str, Signature], ...] = ()
    listed: tuple[tuple[str, Signature], ...] = ()
    failures: int = 0
    retry_at: float = 0.0
    version: int = VERSION


NOTHING_READ: Final = FilesRead()


MOST_FILES: Final = 1000
"""The maximum number of files of one session that a glob may match, and of further logs in all."""

LARGEST_DOCUMENT: Final = 8 << 20
"""Bytes of a document that is read: some tools keep a whole conversation in one. It is as much as is kept of a line."""

MOST_ENTRIES: Final = 100_000
"""Entries of a directory that are compared with a glob."""

LONGEST_WAIT: Final = 300.0
"""The longest pause in seconds before something that keeps failing is tried again."""

JUST_WRITTEN: Final = 2.0
"""Seconds for which a document or a last line that is not JSON may still be being written."""

_MOST_UNPACKED: Final = 32 << 20
"""Bytes of a packed log that are given at a time, at most: all that was given before is unpacked again for them."""

_NOTHING: Final[Mapping[str, Signature]] = MappingProxyType({})


class Reader(Protocol):
    """Receives what is new in a session. `name` is a file's path relative to the session's place."""

    def take(self, name: str, lines: Sequence[LogLine]) -> None: ...

    def see(self, document: Document) -> None: ...

    def was_read(self, count: int) -> None:
        """This many bytes were just read."""
        ...


class LogPortion(NamedTuple):
    """The next whole lines of a log. `name` is its path relative to the session's place, as if it weren't packed."""

    name: str
    lines: Sequence[LogLine]


class Gathered:
    """Keeps what is new, as it was found."""

    def __init__(self) -> None:
        self.portions: list[LogPortion] = []
        self.documents: list[Document] = []

    def take(self, name: str, lines: Sequence[LogLine]) -> None:
        self.portions.append(LogPortion(name, lines))

    def see(self, document: Document) -> None:
        self.documents.append(document)

    def was_read(self, count: int) -> None:
        """Does nothing: `SessionFiles` counts the bytes itself."""


class AnotherLog(Exception):
    """A log isn't the one that was read before: the whole session must be read from its beginning."""


class SessionFiles:
    """One look at the files of a session, which are at or below the open directory `within`.

    What can't be read is among the `obstacles`, and among `refused` if the operating system refused it; only `AnotherLog` is raised. After about `most_bytes` the look ends,
    with `more`.
    """

    def __init__(
        self, within: int, known: FilesRead, now: float, reader: Reader, most_bytes: float = math.inf
    ) -> None:
        self._within = within
        self._known = known
        self._now = now
        self._reader = reader
        self._most = most_bytes
        self._logs = {each.name: each for each in known.logs}
        self._documents = dict(known.documents)
        self._were_listed = dict(known.listed)
        self._listed: dict[str, Signature] = {}
        # A time further ahead dates from before the clock was set back.
        self._waits = now < known.retry_at <= now + LONGEST_WAIT
        self._fails = self._failed = False
        self._unsettled: set[str] = set()
        self.bytes_read = 0
        self.changed_at: float | None = None
        self.obstacles: list[Complaint] = []
        self.refused: list[tuple[str, OSError]] = []
        self.more = self.withheld = False

    @property
    def changed_just_now(self) -> bool:
        """Whether something changed so recently that it may change again unnoticed."""
        return bool(self._unsettled)

    def read(self) -> FilesRead:
        """How far the files are read now."""
        trusted = [each for each in self._listed.items() if each[0] not in self._unsettled]
        logs = [self._settled(each) for each in self._logs.values()]
        documents = [
            (name, NOT_KNOWN if name in self._unsettled else document_signature)
            for name, document_signature in self._documents.items()
        ]
        failures, retry_at = 0, 0.0
        if self._failed:
            failures = self._known.failures + 1
            retry_at = self._now + min(2.0 ** min(failures, 10), LONGEST_WAIT)
        elif self._fails:
            failures, retry_at = self._known.failures, self._known.retry_at
        return FilesRead(
            logs=tuple(logs),
            documents=tuple(documents),
            listed=tuple(trusted),
            failures=failures,
            retry_at=retry_at,
        )

    def documents(
        self, wanted: Iterable[str], found: Mapping[str, Signature] = _NOTHING, *, withhold: bool = True
    ) -> None:
        """Small files that are written whole; those that differ. A half-written one is withheld while it is new.

        `found` are signatures that were just found, for files that needn't be looked at if these are known.
        """
        there: dict[str, Signature] = {}
        self.withheld = False
        for pattern in wanted:
            known = self._documents.get(pattern)
            if known is not None and found.get(pattern) == known:
                there[pattern] = known
                self._changed(known.modified_ns / 1e9)
                continue

            def see(directory: int, last: str, name: str, pattern: str = pattern) -> None:
                if name in there:
                    return  # it was wanted by its own name, too
                seen = self._document(directory, last, name, withhold=withhold)
                if seen is not None:
                    there[name] = seen
                else:
                    # It is not among the known files, and its directory may stay as it is: it must be listed again.
                    self._listed.pop(pattern, None)

            self._each(pattern, self._documents, see)
        self._documents = there

    def logs(
        self, wanted: Iterable[str], found: Mapping[str, Signature] = _NOTHING, *, come_and_go: bool = False
    ) -> None:
        """Logs by their paths or globs; `found` as for documents."""
        there: set[str] = set()
        for pattern in wanted:
            known = self._logs.get(pattern)
            if known is not None and not known.failed and found.get(pattern) == known.signature:
                there.add(pattern)
                self._changed(known.signature.modified_ns / 1e9)
                continue

            def read(directory: int, last: str, name: str) -> None:
                if name not in self._logs and len(self._logs) > MOST_FILES:
                    return
                there.add(name)
                self.log(directory, last, name, come_and_go=come_and_go)

            self._each(pattern, self._logs, read)
        if come_and_go:
            self._logs = {name: each for name, each in self._logs.items() if name in there}

    def log(
        self,
        directory: int,
        last: str,
        name: str,
        *,
        come_and_go: bool = False,
    ) -> None:
        """The log `last` of an open directory, by its path `name`.

        Raises `AnotherLog`, unless the log comes and goes.
        """
        known = self._logs.get(name) or LogRead(name)
        try:
            status = os.stat(last, dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            if error.errno not in ABSENT:
                self._logs.setdefault(name, LogRead(name))
                self._fail(name, error)
            return
        if self._is_read(known, signature_of(status)):
            return
        if not stat.S_ISREG(status.st_mode):
            failed = self._fail(name, NotRegular())
            self._logs[name] = LogRead(name, known.cursor, signature_of(status), failed)
        else:
            self._read(directory, last, LogRead(name, known.cursor), come_and_go=come_and_go)

    def made(self, log: Made, name: str, current: Signature) -> None:
        """A log that is made and not a file, as it stands now. Raises `AnotherLog`."""
        known = self._logs.get(name) or LogRead(name)
        if not self._is_read(known, current):
            read = self._logs[name] = LogRead(name, known.cursor)
            try:
                self._rest(Growing(log, read.cursor), read, current, come_and_go=False)
            except (OSError, CannotUnpack) as error:
                self._not_read(read, current, error)

    def _is_read(self, known: LogRead, current: Signature) -> bool:
        """Whether a log isn't read now: it is as it was, or what failed waits, or enough was read."""
        name = known.name
        self._changed(current.modified_ns / 1e9)
        is_same = current == known.signature and not (known.may_pass and not self._waits)
        if is_same or (known.failed and self._waits):
            self._logs[name] = known
            # It isn't tried again yet: what failed is reported again, but not counted as another failure.
            if known.failed:
                self._fails = True
                self.obstacles.append(Complaint(name, None, known.failed, None))
        elif self.bytes_read >= self._most:
            self._logs[name] = known
            self.more = True
        else:
            return False
        return True

    def _each(self, pattern: str, known: Iterable[str], visit: Callable[[int, str, str], None]) -> None:
        """Visit the files that match a path or glob: each file's directory, its name in there, its path.

        The name of their directory may be a glob, too. `known` are those of a directory that has not changed since it was
        listed.
        """
        parent, _, last = pattern.rpartition("/")
        for each in self._directories(parent) if is_glob(parent) else (parent,):
            self._each_in(each, last, known, visit)

    def _directories(self, pattern: str) -> list[str]:
        """The directories that match a glob, at most `MOST_FILES`."""
        parent, _, last = pattern.rpartition("/")
        try:
            with held(open_below(self._within, parent.split("/"))) as directory:
                names = self._listed_names(directory, last)
        except OSError as error:
            if error.errno not in ABSENT and error.errno != LINK:
                self._fail(parent, error)
            return []
        return [f"{parent}/{name}" for name in names]

    def _each_in(
        self, parent: str, last: str, known: Iterable[str], visit: Callable[[int, str, str], None]
    ) -> None:
        pattern = f"{parent}/{last}" if parent else last
        try:
            directory = open_below(self._within, parent.split("/")) if parent else self._within
            try:
                if not is_glob(last):
                    visit(directory, last, pattern)
                    return
                for name in self._names(directory, pattern, known):
                    visit(directory, name, f"{parent}/{name}" if parent else name)
            finally:
                if parent:
                    os.close(directory)
        except OSError as error:
            if error.errno not in ABSENT and error.errno != LINK:
                self._fail(parent or ".", error)

    def _names(self, directory: int, pattern: str, known: Iterable[str]) -> list[str]:
        parent, _, last = pattern.rpartition("/")
        status = os.fstat(directory)
        current = signature_of(status)
        if self._were_listed.get(pattern) == current:
            self._listed[pattern] = current
            those = (path.rpartition("/") for path in known)
            return [name for within, _, name in those if within == parent and fnmatch.fnmatchcase(name, last)]
        names = self._listed_names(directory, last)
        self._listed[pattern] = current
        self._settle(pattern, status.st_mtime)
        return names

    def _listed_names(self, directory: int, wanted: str) -> list[str]:
        with opened(".", LISTED, directory) as listing, os.scandir(listing) as entries:
            every = islice(entries, MOST_ENTRIES)
            names = (entry.name for entry in every if fnmatch.fnmatchcase(entry.name, wanted))
            return sorted(islice((name for name in names if is_text(name)), MOST_FILES))

    def _document(self, directory: int, last: str, name: str, *, withhold: bool) -> Signature | None:
        """The signature by which it is known from now on."""
        known = self._documents.get(name)
        if self.bytes_read >= self._most:
            self.more = True
            return known
        try:
            document = document_at(directory, last, known, LARGEST_DOCUMENT)
        except OSError as error:
            self._fail(name, error)
            return None
        if document is None:
            return None
        modified_at = document.signature.modified_ns / 1e9
        self._changed(modified_at)
        if document.signature == known:
            return known
        self._count(len(document.content))
        if withhold and abs(self._now - modified_at) < JUST_WRITTEN and _is_broken(document):
            self.withheld = True
            return None
        self._settle(name, modified_at)
        self._reader.see(document._replace(name=name))
        return document.signature

    def _read(self, directory: int, last: str, read: LogRead, *, come_and_go: bool) -> None:
        self._logs[read.name] = read
        is_packed, current = last.endswith(PACKED), NOT_KNOWN
        try:
            with held(open_regular(directory, last)) as descriptor:
                current = signature_of(os.fstat(descriptor))
                log = Growing(descriptor, read.cursor, is_packed=is_packed)
                self._rest(log, read, current, is_packed=is_packed, come_and_go=come_and_go)
        except (OSError, NotRegular, CannotUnpack) as error:
            self._not_read(read, current, error)

    def _not_read(self, read: LogRead, current: Signature, error: Exception) -> None:
        if isinstance(error, FileNotFoundError):
            return  # gone since it was listed
        failed, may_pass = self._fail(read.name, error), isinstance(error, OSError)
        self._logs[read.name] = self._logs[read.name]._replace(
            signature=current, failed=failed, may_pass=may_pass
        )

    def _rest(
        self, log: Growing, read: LogRead, current: Signature, *, come_and_go: bool, is_packed: bool = False
    ) -> None:
        """Read what is new in a log that is open."""
        modified_at = current.modified_ns / 1e9
        if log.is_another() and not come_and_go:
            raise AnotherLog
        if self._portions(log, read, is_packed=is_packed):
            self.more = True
            return
        torn = log.torn()
        # A tool that is just writing a line has torn it for a moment. Only a line that stays torn is worth a complaint.
        if torn and abs(self._now - modified_at) < JUST_WRITTEN:
            self._unsettled.add(read.name)  # the rest of the line may follow
            torn = ""
        elif torn:
            self.obstacles.append(Complaint(read.name, None, torn, None))
        self._logs[read.name] = self._logs[read.name]._replace(signature=current, failed=torn)
        self._settle(read.name, modified_at)

    def _portions(self, log: Growing, read: LogRead, *, is_packed: bool) -> bool:
        """Read as many further lines as may be read now, at least one, or as much as is kept of a long one.

        Returns whether there were more.
        """
        start = 0 if log.is_another() else read.cursor.offset
        allowed = self._most - self.bytes_read
        # Each look unpacks all that came before. Growing portions keep the total work proportional to the size.
        if is_packed:
            allowed = max(allowed, min(start // 2, _MOST_UNPACKED))
        taken = 0
        while True:
            portion = log.portion(int(min(MOST_BYTES, allowed - taken)) if taken < allowed else MOST_BYTES)
            taken += portion.taken
            self._count(portion.taken)
            if portion.lines:
                self._reader.take(read.name, portion.lines)
            self._logs[read.name] = LogRead(read.name, portion.cursor)
            if not portion.more or (taken >= allowed and portion.cursor.offset > start):
                return portion.more

    def _count(self, count: int) -> None:
        self.bytes_read += count
        self._reader.was_read(count)

    def _changed(self, at: float) -> None:
        self.changed_at = at if self.changed_at is None else max(at, self.changed_at)

    def _settle(self, name: str, modified_at: float) -> None:
        """Trust what was read of a file, unless the file changed too recently."""
        # Another change within the same step of the file system's clock would leave the signature as it is.
        if abs(self._now - modified_at) <= RACY:
            self._unsettled.add(name)

    def _settled(self, log: LogRead) -> LogRead:
        return log._replace(signature=NOT_KNOWN) if log.name in self._unsettled else log

    def _fail(self, name: str, error: Exception) -> str:
        """Report what can't be read, and why. Failures before the time to try again are not counted again."""
        self._fails = True
        self._failed = self._failed or not self._waits
        if isinstance(error, NotRegular):
            message = "is not a regular file"
        else:
            message = f"can't be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        if isinstance(error, OSError):
            self.refused.append((name, error))
        self.obstacles.append(Complaint(name, None, message, None))
        return message


def _is_broken(document: Document) -> bool:
    """Whether a document is not JSON: its tool may just be writing it."""
    # Some tools keep a whole conversation in one, and write it anew with each message.
    if document.problem is not None or is_plain(document.content):
        return False
    return isinstance(read_json(document.content), NotJson)


def brought_up(read: FilesRead) -> FilesRead:
    """What this version or the one before stored; each log is then read from there. Raises `ValueError`."""
    if read.version == VERSION:
        return read
    if read.version != 1:
        raise ValueError(f"version {read.version} of what was read of a session's files is not known")
    logs = tuple(log._replace(signature=NOT_KNOWN) for log in read.logs)
    return read._replace(logs=logs, version=VERSION)
