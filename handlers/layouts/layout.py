"""What a layout is: how the sessions of a tool are found and read, whatever the type of its scanner's state."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.layouts import call_readers, native
from runward.handlers.layouts.call_readers import CallLayout
from runward.handlers.layouts.transcript import Heads, LogLine, Resumed, Said, State, Told, TranscriptScanner
from runward.handlers.model.sessions import Document


class Scan(Protocol):
    """A scanner with its state, of whatever type. It is a value: taking something in returns a new one."""

    def feed(self, file: str, lines: Sequence[LogLine]) -> tuple["Scan", tuple[Resumed, ...]]: ...

    def see(self, documents: Sequence[Document]) -> "Scan": ...

    def tell(self) -> Told: ...

    def taken(self) -> "Scan": ...

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

    def taken(self) -> Scan:
        return _Scan(self._scanner, self._scanner.taken(self._state))

    def dump(self) -> str:
        return self._scanner.dump(self._state)


class LayoutModule(Protocol):
    """What the module of every layout provides."""

    @property
    def LAYOUT(self) -> str: ...

    @property
    def SHOWN_BY(self) -> str:
        """What a file or a directory has if it is one of this layout: the end of a sentence that begins with `it has`."""
        ...

    @property
    def SCANNER(self) -> TranscriptScanner[Any]: ...

    @property
    def CALLS(self) -> CallLayout: ...


class LogModule(LayoutModule, Protocol):
    """What the module of a layout of growing files provides.

    `final_message` finds the last message in the lines of a log, newest first, and `message_in` the text that a line
    adds to the conversation.
    """

    def recognises_log(self, name: str, head: bytes) -> bool: ...

    def final_message(self, newest_first: Iterable[bytes]) -> str | None: ...

    def message_in(self, line: bytes) -> Said | None: ...


class DirectoryModule(LayoutModule, Protocol):
    """What the module of a layout of run directories provides.

    `DOCUMENTS` and `LOGS` are the files to read, relative to the directory; the last two parts may be globs. `MARKERS` are
    the files whose heads identify it. In all of them `{name}` stands for the directory's own name, and the heads of
    `recognises_directory` go by the markers as they are declared.
    """

    @property
    def MARKERS(self) -> tuple[str, ...]: ...

    @property
    def DOCUMENTS(self) -> tuple[str, ...]: ...

    @property
    def LOGS(self) -> tuple[str, ...]: ...

    def recognises_directory(self, names: frozenset[str], heads: Heads) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """What its module and its entry in `LAYOUTS` say about a layout.

    With `goes_by_id` a session is the same wherever its files are moved to. With `hosts_subagents` those sub-agents that are
    sessions work in the process of the session that they work for.
    """

    module: LayoutModule
    goes_by_id: bool
    names_process: bool
    hosts_subagents: bool = False

    @property
    def name(self) -> str:
        return self.module.LAYOUT

    @property
    def shown_by(self) -> str:
        """What shows that a file or a directory is one: the end of a sentence that begins with `it has`."""
        return self.module.SHOWN_BY

    def start(self, name: str) -> Scan:
        """The scan of a file or directory with this name before anything was read."""
        return _Scan(self.module.SCANNER, self.module.SCANNER.start(name))

    def load(self, text: str) -> Scan:
        """A stored scan. Raises `ValueError`."""
        return _Scan(self.module.SCANNER, self.module.SCANNER.load(text))


class Row(NamedTuple):
    """A row of an entry, or of a part of one. Times are milliseconds; `about` is what the query adds."""

    id: str
    created: int
    updated: int
    data: bytes
    about: bytes | None = None


class Entry(NamedTuple):
    """An entry of a session, such as a message, with its parts."""

    row: Row
    parts: tuple[Row, ...]


class Earlier(NamedTuple):
    """How sessions were kept before there was a database: in `files`, globs for each session's own below the same
    directory. They aren't read; `since` says to a person what changed, and what to do.
    """

    files: tuple[str, ...]
    since: str


AsOutcome: TypeAlias = Callable[[dict[str, JsonValue]], dict[str, JsonValue]]

FindMessage: TypeAlias = Callable[[Iterable[bytes]], str | None]
"""Finds the last message in lines, newest first."""

NO_FILES: Final[Mapping[str, AsOutcome]] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Database:
    """How the sessions of a layout are read from its database.

    `files` is a glob for the database's name. `tables` are the tables that must be there, with their columns. `version` asks which
    version of the program wrote the newest session. `newcomers` are those tables to which rows are added as sessions go on, each with
    its column that names the session. `standing` asks for `(id, modified, number)` of sessions: a change of a session changes
    one of the two; `{where}` in it stands for a condition on `s`. `session` asks for one session: the time of its first own
    entry, and what `begin` makes its first lines of. `entries` asks for a session's entries from `(:at, :id)` on, `parts` for those
    of an entry. Entries are read in groups: `begins` tells whether an entry begins one, and only the last group may still grow.
    `lines` makes the lines of a group. Lines that were made once must be made again when more is there, before all new ones.
    `earlier` is how the program kept its sessions before, if that is known.
    """

    files: str
    tables: Mapping[str, frozenset[str]]
    version: str
    newcomers: Mapping[str, str]
    standing: str
    session: str
    entries: str
    parts: str
    begins: Callable[[Row], bool]
    begin: Callable[[Sequence[object]], Sequence[bytes]]
    lines: Callable[[Sequence[Entry]], Sequence[bytes]]
    earlier: Earlier | None = None


class Declared(NamedTuple):
    """What a layout declares about reading its sessions.

    `calls` is how their calls are read. With a `database` they are its rows. `outcomes` are the files that hold outcomes in the
    layout's own words, and with `has_outcomes` its sessions may have outcomes that no contract names. `final_message` is in which file of a session's directory its last message is (None: the session is
    a log), and how it is found in the lines; None if nobody can find it.
    """

    calls: CallLayout
    database: Database | None = None
    outcomes: Mapping[str, AsOutcome] = NO_FILES
    final_message: tuple[str | None, FindMessage] | None = None
    has_outcomes: bool = False


@dataclass(frozen=True, kw_only=True)
class LogLayout(_Layout):
    """A layout in which a session is one growing file.

    `usual_place` is what the paths of its files end in, for a file that can't be read. `beside` are globs of further
    logs of a session, such as its sub-agents', relative to its own log, whose name (without its suffix) is `{name}`
    in them, which the scanner gets, too. `documents` are paths of small files in the same form, which the scanner
    gets whole whenever they were rewritten. Logs whose names begin with one of `no_sessions` do not belong to any session.
    `among` are globs for the ends of paths of logs that are sessions, although they are where another layout keeps what belongs to a session.
    With a `database`, a session's log is made of its rows, and there are no other files.
    """

    module: LogModule
    goes_by_id: bool = True
    usual_place: re.Pattern[str]
    database: Database | None = None
    beside: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    no_sessions: tuple[str, ...] = ()
    among: tuple[str, ...] = ()

    def recognises(self, name: str, head: bytes) -> bool:
        """Whether a log of this name that begins so is one."""
        return self.module.recognises_log(name, head)

    def declared(self) -> Declared:
        """What it declares about reading its sessions."""
        return Declared(self.module.CALLS, self.database, final_message=(None, self.module.final_message))


class InDirectory(NamedTuple):
    """The conversation in a session's directory: in which file (`{name}` as in `DirectoryModule`), and what text a line adds.

    If the file is a document, `lines` takes the lines out of its content, one for each message.
    """

    file: str
    message_in: Callable[[bytes], Said | None]
    lines: Callable[[bytes], Sequence[bytes]] | None = None


@dataclass(frozen=True, kw_only=True)
class DirectoryLayout(_Layout):
    """A layout in which a session is a directory.

    Sessions are this many `levels` below a root. With `logs_come_and_go` a log that is no longer there is finished:
    another log of its name is a new one. `artifacts` is the directory in it at which a contract's paths begin, "" for the
    session's directory. `outcomes` are the files with outcomes in the layout's own words, each with the function that makes
    an outcome of its object. `final_message` is the file with the last message (`{name}` as in `DirectoryModule`), with the
    function that finds it in the file's lines. `conversation` is where the messages are, if the module doesn't say it.
    """

    module: DirectoryModule
    names_process: bool = False
    logs_come_and_go: bool = False
    levels: int = 1
    artifacts: str = ""
    outcomes: tuple[tuple[str, AsOutcome], ...] = ()
    final_message: tuple[str, FindMessage] | None = None
    conversation: InDirectory | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        return self.module.MARKERS

    @property
    def documents(self) -> tuple[str, ...]:
        return self.module.DOCUMENTS

    @property
    def logs(self) -> tuple[str, ...]:
        return self.module.LOGS

    def recognises(self, names: frozenset[str], heads: Heads) -> bool:
        """Whether a directory with these names, whose markers begin so, is one."""
        return self.module.recognises_directory(names, heads)

    def declared(self) -> Declared:
        """What it declares about reading its sessions."""
        outcomes = dict(self.outcomes)
        return Declared(self.module.CALLS, None, outcomes, self.final_message, has_outcomes=bool(outcomes))

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


_NATIVE: Final = Declared(call_readers.CALLS, has_outcomes=True)


def declared(layout: str) -> Declared:
    """What the layout of this name declares about reading its sessions. All are imported with the first that isn't native."""
    if layout == native.LAYOUT:
        return _NATIVE
    from runward.handlers.layouts.registry import DECLARED

    return DECLARED[layout]


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
