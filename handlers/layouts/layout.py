"""What a layout is: how the sessions of a tool are found and read, whatever the type of its scanner's state."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.layouts.call_readers import CallLayout
from runward.handlers.layouts.transcript import Heads, LogLine, Resumed, Said, State, Told, TranscriptScanner
from runward.handlers.model.sessions import Document


class Scan(Protocol):
    """A scanner with its state, of whatever type. It is a value: taking something in returns a new one."""

    def feed(self, file: str, lines: Sequence[LogLine]) -> tuple["Scan", tuple[Resumed, ...]]: ...

    def see(self, documents: Sequence[Document]) -> "Scan": ...

    def tell(self) -> Told: ...

    def dump(self) -> str: ...


class _Scan(Generic[State]):
    __slots__ = ("_scanner", "_state")

    def __init__(self, scanner: TranscriptScanner[State], state: State) -> None:
        self._scanner = scanner
        self._state = state

    def feed(self, file: str, lines: Sequence[LogLine]) -> tuple[Scan, tuple[Resumed, ...]]:
        state, resumed = self._scanner.feed(self._state, file, lines)
        return _Scan(self._scanner, state), resumed

    def see(self, documents: Sequence[Document]) -> Scan:
        return _Scan(self._scanner, self._scanner.see(self._state, documents))

    def tell(self) -> Told:
        return self._scanner.tell(self._state)

    def dump(self) -> str:
        return self._scanner.dump(self._state)


class LogLayout(NamedTuple):
    """A layout in which a session is one growing file.

    `start` gives the scan of a file with this name before anything was read, `load` a stored one (`ValueError`).
    `usual_place` is what the paths of its files end in, for a file that can't be read. `beside` are globs of further
    logs of a session, such as its sub-agents', relative to its own log, whose name (without its suffix) is `{name}`
    in them: the scanner gets their beginnings. Logs whose names begin with one of `no_sessions`
    do not belong to any session. `calls` is how the calls of its sessions are read, `final_message` finds the last
    message in the lines of a log, newest first, and `message_in` is the text that a line adds to the conversation.
    """

    name: str
    start: Callable[[str], Scan]
    load: Callable[[str], Scan]
    calls: CallLayout
    final_message: Callable[[Iterable[bytes]], str | None]
    message_in: Callable[[bytes], Said | None]
    recognises: Callable[[str, bytes], bool]
    usual_place: re.Pattern[str]
    names_process: bool
    beside: tuple[str, ...] = ()
    goes_by_id: bool = True
    no_sessions: tuple[str, ...] = ()


AsOutcome: TypeAlias = Callable[[dict[str, JsonValue]], dict[str, JsonValue]]
NO_FILES: Final[Mapping[str, AsOutcome]] = {}


class DirectoryLayout(NamedTuple):
    """A layout in which a session is a directory.

    `documents` and `logs` are the files to read, relative to it; the last part may be a glob. `markers` are the files
    whose heads identify it. With `goes_by_id` a session is the same wherever its directory is moved to. With
    `logs_come_and_go` a log that is no longer there is finished: another log of its name is a new one. `artifacts` is
    the directory in it at which a contract's paths begin, "" for the session's directory. `outcomes` are the files with
    outcomes in the layout's own words, each with the function that makes an outcome of its object. `calls` is how the
    calls of its sessions are read.
    """

    name: str
    start: Callable[[str], Scan]
    load: Callable[[str], Scan]
    calls: CallLayout
    recognises: Callable[[frozenset[str], Heads], bool]
    markers: tuple[str, ...]
    documents: tuple[str, ...]
    logs: tuple[str, ...]
    goes_by_id: bool
    names_process: bool = False
    logs_come_and_go: bool = False
    artifacts: str = ""
    outcomes: tuple[tuple[str, AsOutcome], ...] = ()

    def artifacts_path(self, path: str) -> str:
        """Where the paths of a contract begin, for the session in the directory `path`."""
        return f"{path}/{self.artifacts}" if self.artifacts else path


class Layouts(NamedTuple):
    """Layouts, in the order in which they are tried."""

    logs: tuple[LogLayout, ...] = ()
    directories: tuple[DirectoryLayout, ...] = ()

    def names(self) -> tuple[str, ...]:
        return (*(each.name for each in self.logs), *(each.name for each in self.directories))

    def named(self, name: str) -> LogLayout | DirectoryLayout:
        """The layout of this name, which must be one of them."""
        every: list[LogLayout | DirectoryLayout] = [*self.logs, *self.directories]
        return next(each for each in every if each.name == name)

    def only(self, name: str) -> "Layouts":
        """Just the layout of this name, or none."""
        return Layouts(
            tuple(each for each in self.logs if each.name == name),
            tuple(each for each in self.directories if each.name == name),
        )


class LayoutModule(Protocol[State]):
    """What the module of every layout provides."""

    @property
    def LAYOUT(self) -> str: ...

    @property
    def SCANNER(self) -> TranscriptScanner[State]: ...

    @property
    def CALLS(self) -> CallLayout: ...


class LogModule(LayoutModule[State], Protocol[State]):
    """What the module of a layout of growing files provides; see `LogLayout`."""

    def recognises_log(self, name: str, head: bytes) -> bool: ...

    def final_message(self, newest_first: Iterable[bytes]) -> str | None: ...

    def message_in(self, line: bytes) -> Said | None: ...


def log_layout(
    module: LogModule[State],
    usual_place: str,
    *,
    names_process: bool,
    beside: tuple[str, ...] = (),
    no_sessions: tuple[str, ...] = (),
) -> LogLayout:
    """A layout of growing files; `usual_place` is a regular expression."""
    start, load = _with(module.SCANNER)
    return LogLayout(
        name=module.LAYOUT,
        start=start,
        load=load,
        calls=module.CALLS,
        final_message=module.final_message,
        message_in=module.message_in,
        recognises=module.recognises_log,
        usual_place=re.compile(f"(?:{usual_place})$"),
        names_process=names_process,
        beside=beside,
        no_sessions=no_sessions,
    )


class DirectoryModule(LayoutModule[State], Protocol[State]):
    """What the module of a layout of run directories provides; see `DirectoryLayout`."""

    @property
    def MARKERS(self) -> tuple[str, ...]: ...

    @property
    def DOCUMENTS(self) -> tuple[str, ...]: ...

    @property
    def LOGS(self) -> tuple[str, ...]: ...

    def recognises_directory(self, names: frozenset[str], heads: Heads) -> bool: ...


def directory_layout(
    module: DirectoryModule[State],
    *,
    goes_by_id: bool,
    logs_come_and_go: bool = False,
    artifacts: str = "",
    outcomes: tuple[tuple[str, AsOutcome], ...] = (),
) -> DirectoryLayout:
    """A layout of run directories, in which no process is named."""
    start, load = _with(module.SCANNER)
    return DirectoryLayout(
        name=module.LAYOUT,
        start=start,
        load=load,
        calls=module.CALLS,
        recognises=module.recognises_directory,
        markers=module.MARKERS,
        documents=module.DOCUMENTS,
        logs=module.LOGS,
        goes_by_id=goes_by_id,
        logs_come_and_go=logs_come_and_go,
        artifacts=artifacts,
        outcomes=outcomes,
    )


def _with(scanner: TranscriptScanner[State]) -> tuple[Callable[[str], Scan], Callable[[str], Scan]]:
    def start(name: str) -> Scan:
        return _Scan(scanner, scanner.start(name))

    def load(text: str) -> Scan:
        return _Scan(scanner, scanner.load(text))

    return start, load


def fed(scan: Scan, file: str, lines: Sequence[LogLine]) -> tuple[Scan, tuple[Resumed, ...]]:
    """The scan with further lines of a log, and the boundaries in them, each with its line."""
    # Scanners don't number what they read. Few portions have a boundary, so only those are fed again, in halves:
    # feeding a log in two portions says the same as feeding it in one.
    after, resumed = scan.feed(file, lines)
    return after, _placed(scan, file, lines, resumed)


def _placed(
    scan: Scan, file: str, lines: Sequence[LogLine], resumed: tuple[Resumed, ...]
) -> tuple[Resumed, ...]:
    """The boundaries that these lines have after what was scanned, each with its line."""
    if not resumed:
        return ()
    if len(lines) == 1:
        return tuple(each._replace(line=lines[0].number) for each in resumed)
    half = len(lines) // 2
    middle, first = scan.feed(file, lines[:half])
    rest = resumed[len(first) :]
    return _placed(scan, file, lines[:half], first) + _placed(middle, file, lines[half:], rest)
