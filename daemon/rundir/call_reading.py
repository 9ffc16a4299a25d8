"""Reading the calls of a session from its files: everything new since the last look, in order.

Items go to the caller one by one, so no transcript is ever held whole.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping

from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LASTING, NotRegular, held, open_regular, opened
from runward.daemon.rundir.session_files import NOTHING_READ, FilesRead, Gathered, SessionFiles
from runward.daemon.rundir.session_logs import UNREAD, CannotUnpack, Cursor, Made, PlacedLines, TooLong
from runward.daemon.rundir.session_places import log_at, made_log
from runward.handlers.calls import Place, Told, Unusable
from runward.handlers.layouts.call_readers import LONGEST_LINE, CallReader, PlacedLine
from runward.handlers.layouts.layout import declared
from runward.handlers.layouts.places import PACKED, named, unpacked_name
from runward.handlers.model.sessions import Complaint


class CannotReadNow(Exception):
    """A file can't be read, but a later try may succeed. The message says which file, and why."""


class CallReading:
    """One reading of the calls of the session whose log, or directory, is at `path`.

    Iterate over `told`, and again for what came since. After that `obstacles` are files that could not be read, and
    `changed` names files that were replaced since they were read: nothing more is reported of them.
    `go_on` is that of `PlacedLines`. `may_pass` says which file the operating system refused for now, and why; None if it refused none.
    """

    def __init__(self, layout: str, path: str, go_on: Callable[[int], bool] = lambda read: True) -> None:
        self._go_on = go_on
        self._layout = declared(layout).calls
        self._path = path
        self._name = unpacked_name(os.path.basename(path))
        self._made = made_log(layout, path)
        self._logs: dict[str, Cursor] = {}
        self._files: FilesRead = NOTHING_READ
        self._ends: Mapping[str, int] | None = None
        self._reader: CallReader = self._layout.start(self._name, self._lines_beside)
        self.obstacles: list[Complaint] = []
        self.changed: list[str] = []
        self.may_pass: str | None = None

    def told(self, most_bytes: int | None = None, ends: Mapping[str, int] | None = None) -> Iterator[Told]:
        """What is new, in the order of the files. At most about `most_bytes` of each log are read.

        With `ends` each log is read only up to this byte; one without an end isn't read.
        """
        self._ends = ends
        try:
            if self._made is not None:
                yield from self._lines(self._name, self._made, most_bytes)
            elif self._layout.logs or self._layout.documents:
                with opened(self._path, DIRECTORY) as within:
                    yield from self._documents(within)
                    for name in named(self._layout.logs, self._name):
                        yield from self._log(within, name, name, most_bytes)
            else:
                with opened(os.path.dirname(self._path) or "/", DIRECTORY) as within:
                    log_file = log_at(within, self._name)
                    if log_file is None:
                        self._hindered(self._name, "is gone")
                    else:
                        yield from self._log(within, log_file[0], self._name, most_bytes)
        except CannotUnpack as error:
            self._hindered(self._name, str(error))
        except FileNotFoundError:
            self._hindered(self._name, "is gone")
        except OSError as error:
            self._refused(self._name, error)

    @property
    def offsets(self) -> list[tuple[str, int]]:
        """How far each log was read, in bytes."""
        return [(name, cursor.offset) for name, cursor in self._logs.items()]

    def _documents(self, within: int) -> Iterator[Told]:
        if not self._layout.documents:
            return
        gathered = Gathered()
        files = SessionFiles(within, self._files, time.time(), gathered)
        files.documents(named(self._layout.documents, self._name))
        self.obstacles += files.obstacles
        for name, error in files.refused:
            self._may_pass(name, error)
        self._files = files.read()
        for document in gathered.documents:
            yield from self._reader.see(document)

    def _log(self, within: int, file: str, name: str, most_bytes: int | None) -> Iterator[Told]:
        try:
            descriptor = open_regular(within, file)
        except NotRegular:
            self._hindered(name, "is not a regular file")
            return
        except OSError as error:
            if error.errno not in ABSENT:
                self._refused(name, error)
            elif name in self._logs:
                self.changed.append(name)
            return
        try:
            yield from self._lines(name, descriptor, most_bytes, is_packed=file.endswith(PACKED))
        except CannotUnpack as error:
            self._hindered(name, str(error))
        except OSError as error:
            self._refused(name, error)
        finally:
            os.close(descriptor)

    def _lines_beside(self, name: str) -> Iterator[bytes]:
        """The lines of another log in the directory of this one; none if it can't be read."""
        try:
            with opened(os.path.dirname(self._path) or "/", DIRECTORY) as within:
                log_file = log_at(within, name)
                if log_file is None:
                    return
                with held(open_regular(within, log_file[0])) as descriptor:
                    log = PlacedLines(
                        descriptor, UNREAD, is_packed=log_file[0].endswith(PACKED), go_on=self._go_on
                    )
                    yield from (b"" if isinstance(line, TooLong) else line.content for line in log.lines())
        except (NotRegular, CannotUnpack):
            return
        except OSError as error:
            if error.errno not in ABSENT:
                self._may_pass(name, error)

    def _lines(
        self, name: str, source: int | Made, most_bytes: int | None, *, is_packed: bool = False
    ) -> Iterator[Told]:
        """What is new in a log that is open, or is made. Raises `OSError` and `CannotUnpack`."""
        known = self._logs.get(name, UNREAD)
        end = None if self._ends is None else self._ends.get(name, 0)
        log = PlacedLines(source, known, is_packed=is_packed, end=end, go_on=self._go_on)
        # What was read of it is recorded already, with places in the old file.
        if log.is_another():
            self.changed.append(name)
            return
        try:
            yield from self._reader_takes(name, log, most_bytes)
        finally:
            self._logs[name] = log.cursor

    def _reader_takes(self, name: str, log: PlacedLines, most_bytes: int | None) -> Iterator[Told]:
        """Feed the lines to the layout's reader. What can't be read is reported in its place among the others."""
        too_long: list[TooLong] = []

        def readable() -> Iterator[PlacedLine]:
            for line in log.lines(most_bytes):
                if isinstance(line, TooLong):
                    too_long.append(line)
                else:
                    yield line

        for each in self._reader.take(name, readable()):
            yield from _passed_over(name, too_long)
            yield each
        yield from _passed_over(name, too_long)

    def _refused(self, name: str, error: OSError) -> None:
        self._hindered(name, f"can't be read: {error.strerror}")
        self._may_pass(name, error)

    def _may_pass(self, name: str, error: OSError) -> None:
        if error.errno not in LASTING:
            self.may_pass = f"{name} can't be read: {error.strerror}"

    def _hindered(self, name: str, message: str) -> None:
        self.obstacles.append(Complaint(name, None, message, None))


def _passed_over(name: str, too_long: list[TooLong]) -> Iterator[Told]:
    while too_long:
        line = too_long.pop(0)
        problem = f"a line of {line.length} bytes is not read: {LONGEST_LINE} are the most"
        yield Unusable(Place(name, line.number, line.start, line.length), problem)


def told_by(layout: str, path: str, go_on: Callable[[int], bool], *, waits: bool = False) -> Iterator[Told]:
    """What the files of the session at `path` say, in their order; what could not be read comes last.

    `go_on` gets the number of bytes of each piece that is read, whether or not anything in it is about a call, and says
    whether to continue. Raises `Halted` if it says no.
    With `waits` it raises `CannotReadNow` if a later try may read more.
    """
    reading = CallReading(layout, path, go_on)
    yield from reading.told()
    if waits and reading.may_pass is not None:
        raise CannotReadNow(reading.may_pass)
    for each in reading.obstacles:
        yield Unusable(Place(each.file, 0, 0, 0), each.message)
