"""The files that a session recorded, opened for a person to read: what it delivered, its logs from where they begin to where they end, its journal and bundle."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple, TypeVar

from runward.config.root import NATIVE
from runward.config.settings import Settings
from runward.daemon.launch.output import SUFFIX, omission
from runward.daemon.rundir.opening import LINK, LISTED, NotRegular, held, open_in_run
from runward.daemon.rundir.recorded_files import OutsideRoot, Place, open_recorded, opened_directory
from runward.daemon.store.tables.artifacts import artifact_with
from runward.daemon.store.tables.files import kept_files
from runward.daemon.store.tables.sessions import SessionRow, files_of
from runward.daemon.views.bundles import journal_place, shown_bundle
from runward.handlers.bundle.parts import RECEIPT, REPLAY, SUMMARY, part_name

_LOG_CHUNK: Final = 1 << 16
_PIECE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_OMISSION: Final = re.compile(rb"\nrunward: ([0-9]{1,18}) bytes are left out here \(log_limit\)\n")


class RunOutput:
    """One log of a run directory, read from where the last reading ended.

    While the run is alive, and after its launcher was killed, the end of a long log is in pieces (`log_tail.py`).
    """

    def __init__(self, directory: str, name: str) -> None:
        self._directory = directory
        self._name = name
        self._at = 0
        """How much of the whole output was read, or passed over where it is left out."""
        self._head: int | None = None
        """Where the pieces begin, once there were any."""

    def added(self) -> Iterator[bytes]:
        """What was added since the last call. Raises `OSError` and `NotRegular` if there is no such log."""
        pieces = self._pieces()
        if pieces:
            self._head = pieces[0][0]
        if self._head is None:
            yield from self._read(self._name, 0, None)
            return
        yield from self._read(self._name, 0, self._head)
        if not pieces:
            yield from self._joined(self._head)
        for head, start in pieces:
            yield from self._pass_over(start)
            try:
                yield from self._read(f"{self._name}{SUFFIX}/{head}-{start}", start, None)
            except FileNotFoundError:
                return  # it was thrown away, or joined to the log, just now: the next look tells

    @property
    def is_in_pieces(self) -> bool:
        """Whether the end of the log is still kept apart from its beginning."""
        return bool(self._pieces())

    def newest(self, longest: int) -> bytes:
        """The last `longest` bytes at most. Raises `OSError` and `NotRegular`."""
        pieces = self._pieces()
        name = f"{self._name}{SUFFIX}/{pieces[-1][0]}-{pieces[-1][1]}" if pieces else self._name
        with held(self._opened(name)) as descriptor:
            return os.pread(descriptor, longest, max(0, os.fstat(descriptor).st_size - longest))

    def _joined(self, head: int) -> Iterator[bytes]:
        """The end of a log whose pieces were joined to it since the last call."""
        with held(open_in_run(self._directory, self._name)) as descriptor:
            omitted = _OMISSION.match(os.pread(descriptor, 100, head))
        start, length = (head + int(omitted[1]), len(omitted[0])) if omitted else (head, 0)
        yield from self._pass_over(start)
        yield from self._read(self._name, start - head - length, None)

    def _pass_over(self, start: int) -> Iterator[bytes]:
        if self._at < start:
            yield omission(start - self._at)
            self._at = start

    def _read(self, name: str, start: int, end: int | None) -> Iterator[bytes]:
        """The rest of a file whose first byte is that of the output at `start`; up to `end` of the output."""
        with held(self._opened(name)) as descriptor:
            while end is None or self._at < end:
                longest = _LOG_CHUNK if end is None else min(_LOG_CHUNK, end - self._at)
                content = os.pread(descriptor, longest, self._at - start)
                if not content:
                    return
                self._at += len(content)
                yield content

    def _opened(self, name: str) -> int:
        """Without a slash behind the directory, which would follow a link in its place. Raises `OSError` and `NotRegular`."""
        pieces, _, within = name.rpartition("/")
        return open_in_run(os.path.join(self._directory, pieces) if pieces else self._directory, within)

    def _pieces(self) -> list[tuple[int, int]]:
        try:
            directory = os.open(os.path.join(self._directory, self._name + SUFFIX), LISTED)
        except OSError:
            return []  # there are none, or something else is there
        with held(directory):
            matches = (_PIECE.fullmatch(name) for name in os.listdir(directory))
            return sorted((int(each[1]), int(each[2])) for each in matches if each is not None)


def last_lines(directory: str, name: str, count: int) -> list[str]:
    """The last lines of a log; empty if it can't be read."""
    try:
        newest = RunOutput(directory, name).newest(_LOG_CHUNK)
    except (OSError, NotRegular):
        return []
    return [text_of(line) for line in newest.split(b"\n") if line.strip()][-count:]


def text_of(line: bytes) -> str:
    """A line without its newline."""
    return line.removesuffix(b"\r").decode("utf-8", "backslashreplace")


LOGS: Final = {"stdout": "stdout.log", "stderr": "stderr.log"}
JOURNAL: Final = "events.jsonl"
PARTS: Final = {"replay": REPLAY, "receipt": RECEIPT, "summary": SUMMARY}

SHOWN: Final = 128 << 10
"""Bytes that are shown of the beginning and of the end of a file."""

_CHUNK: Final = 1 << 16


Found = TypeVar("Found")


class NoFile(Exception):
    """There is no such file, or it is not shown; the message says why."""


class Ends(NamedTuple):
    """The beginning and the end of a file, and its size in bytes; what is between was left out if there is an `end`.

    The size of a log that is still in pieces is not known.
    """

    start: bytes
    end: bytes | None
    size: int | None


class RecordedFile(NamedTuple):
    """A file that a session recorded. `name` is for people, `where` opens it."""

    name: str
    place: Place
    path: str
    is_log: bool = False

    def ends(self) -> Ends:
        """What a page shows of it. Raises `NoFile`."""
        return _explained(self.name, self._log_ends if self.is_log else self._ends)

    def _ends(self) -> Ends:
        with held(open_recorded(self.place, self.path)) as descriptor:
            size = os.fstat(descriptor).st_size
            if size <= 2 * SHOWN:
                return Ends(_read(descriptor, 2 * SHOWN, 0), None, size)
            return Ends(_read(descriptor, SHOWN, 0), _read(descriptor, SHOWN, size - SHOWN), size)

    def _log_ends(self) -> Ends:
        whole = self._ends()
        with opened_directory(self.place) as within:
            output = _output(within, self.path)
            if not output.is_in_pieces:
                return whole
            return Ends(whole.start[:SHOWN], output.newest(SHOWN), None)

    def open(self) -> Iterator[bytes]:
        """All of it, in pieces; a file that grows only up to its size now. Raises `NoFile`, here and not later."""
        return _explained(self.name, self._whole_log if self.is_log else self._whole)

    def _whole(self) -> Iterator[bytes]:
        file = os.fdopen(open_recorded(self.place, self.path), "rb", buffering=0)
        return _pieces(file, os.fstat(file.fileno()).st_size)

    def _whole_log(self) -> Iterator[bytes]:
        os.close(open_recorded(self.place, self.path))

        def pieces() -> Iterator[bytes]:
            # Held open for all pieces: a run could otherwise put a link in place of the directory between two of them.
            with opened_directory(self.place) as within:
                yield from _output(within, self.path).added()

        return pieces()


def delivered_file(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, path: str
) -> RecordedFile:
    """The file that `files` of `session show` names so. Raises `NoFile`."""
    # Only what is recorded as delivered: the path comes from an address, and there is more in the directory.
    kept = kept_files(connection, [row.key]).get(row.key, [])
    if path not in [each["path"] for each in files_of(row, kept) if isinstance(each, dict)]:
        raise NoFile(f"The session did not deliver {path}.")
    return RecordedFile(path, place_of(settings, row, row.artifacts_path, is_own=True), path)


def log_file(settings: Settings, row: SessionRow, log: str) -> RecordedFile:
    """What the run printed. Raises `NoFile`."""
    if row.layout != NATIVE:
        raise NoFile(f"Runward records no output of a session of {row.layout}.")
    return RecordedFile(LOGS[log], place_of(settings, row, row.path), LOGS[log], is_log=True)


def journal_file(settings: Settings, row: SessionRow) -> RecordedFile:
    """The session's journal. Raises `NoFile`."""
    return RecordedFile(JOURNAL, place_of(settings, row, journal_place(settings.state_dir, row)), JOURNAL)


def part_file(connection: sqlite3.Connection, settings: Settings, row: SessionRow, part: str) -> RecordedFile:
    """A part of the bundle, by the plain words of `PARTS`. Raises `NoFile`."""
    bundle = shown_bundle(connection, settings, row)
    if bundle is None:
        raise NoFile("The session has no bundle.")
    name = part_name(PARTS[part], bundle.attempt)
    return RecordedFile(name, place_of(settings, row, bundle.directory), name)


def outcome_file(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, identifier: str
) -> RecordedFile:
    """The file of an outcome of this session. Raises `NoFile`."""
    artifact = artifact_with(connection, identifier)
    if artifact is None or artifact.session_key != row.key or artifact.file_path is None:
        raise NoFile(f"The session has no outcome {identifier} with a file.")
    path = artifact.file_path
    among = RecordedFile(path, place_of(settings, row, row.artifacts_path, is_own=True), path)
    try:
        among.ends()
    except NoFile:
        if artifact.names_file:
            raise
        return RecordedFile(path, place_of(settings, row, row.path), path)
    return among


def play_file(settings: Settings, row: SessionRow, name: str) -> RecordedFile:
    """A text in the directory of a play. Raises `NoFile`."""
    from runward.daemon.rundir.play_files import is_text_of_play  # imports the types of events

    if not is_text_of_play(name):
        raise NoFile(f"{name} is not an intent, a prompt or a log of the play.")
    return RecordedFile(name, place_of(settings, row, row.path), name)


def place_of(settings: Settings, row: SessionRow, directory: str, *, is_own: bool = False) -> Place:
    """A directory of a session, below the session's root or our own state. Raises `NoFile`.

    With `is_own`, artifacts elsewhere are below a root of their own: the launcher or the operator said where they are.
    """
    roots = [each.path for each in settings.roots if each.name == row.root]
    if not roots:
        raise NoFile(f"The session's root, {row.root}, is no longer in the settings.")
    for root in (*roots, settings.state_dir):
        # With the slashes: /srv/runs-old is not below /srv/runs.
        if f"{directory}/".startswith(f"{root.rstrip('/')}/"):
            return Place(root, directory)
    if not is_own:
        raise NoFile(f"{directory} is not below the session's root.")
    return Place(directory, directory)


def _output(within: int, name: str) -> RunOutput:
    """The log in an open directory, whatever is at the directory's path now."""
    return RunOutput(f"/proc/self/fd/{within}/", name)


def _read(descriptor: int, length: int, start: int) -> bytes:
    content = b""
    while len(content) < length and (
        piece := os.pread(descriptor, length - len(content), start + len(content))
    ):
        content += piece
    return content


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    with file:
        while size > 0 and (piece := file.read(min(_CHUNK, size))):
            size -= len(piece)
            yield piece


def _explained(name: str, look: Callable[[], Found]) -> Found:
    try:
        return look()
    except OutsideRoot as error:
        raise NoFile(f"{name} is not shown: {error}.") from error
    except NotRegular as error:
        raise NoFile(f"{name} is not shown: it is not a regular file.") from error
    except OSError as error:
        if error.errno == LINK:
            raise NoFile(f"{name} is not shown: there is a link on the way to it.") from error
        raise NoFile(f"{name} can't be read: {error.strerror}.") from error
