"""The four ports through which the daemon reaches the world: clock, files, processes, randomness.

Everything else is ordinary code, so that a whole daemon runs in one process and in virtual time
under `tests/simulation/`. Calls are plain and blocking; the worker makes them in bounded threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from runward.daemon.inbox.spool import InboxFile
from runward.handlers.contracts.artifact_facts import RootFacts, RuledPath
from runward.handlers.contracts.file_hashes import RootHashes
from runward.handlers.unreadable import Unreadable

if TYPE_CHECKING:  # commands that only ask the store needn't load the scanners of all layouts
    from runward.daemon.rundir.sights import FilesRead, Identity, SessionSight
    from runward.handlers.bundle.calls import Told as CallTold
    from runward.handlers.bundle.facts import NoDraft, Part
    from runward.handlers.effects import StartRun
    from runward.handlers.facts import EarlyLegs, LegsBefore, RunProcesses
    from runward.handlers.layouts.places import Shape
    from runward.handlers.layouts.registry import DirectoryLayout, Layouts, LogLayout
    from runward.handlers.layouts.scanner import Document, RecordedProcess, Signature
    from runward.handlers.outcomes.facts import OutcomeFile
    from runward.handlers.sessions.observe import ProcessState
    from runward.handlers.sessions.over import Writer


class Clock(Protocol):
    """Wall time in Unix seconds, and a time that only moves forward, suspends included."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Randomness(Protocol):
    """Where tokens come from."""

    def token(self) -> str: ...


class Standing(NamedTuple):
    """The directory that stands at a path: which one it is, by device and inode, and whether it may be read."""

    identity: str
    readable: bool


class RunPlace(NamedTuple):
    """A run directory as it stands: its owner's uid, which one it is, and why no word could be left in it."""

    owner: int
    device: int
    inode: int
    problem: str | None = None


class Told(NamedTuple):
    """A process was told to end; `who` says which."""

    who: str


class NotTold(NamedTuple):
    """Nobody could be told to end, and asking again changes nothing.

    `too_late`: because nobody, or nothing, is left of the run, which an earlier try may have brought about.
    """

    why: str
    too_late: bool = False


class Begun(NamedTuple):
    """A run that was ordered has begun, now or earlier: its `run.json` stands, and its command may have run."""


class NotBegun(NamedTuple):
    """A run that was ordered has not begun. `for_good` means that it never can."""

    why: str
    for_good: bool = False


WriterOf: TypeAlias = "Callable[[str, str, str], Writer]"
"""What is known now of the process that writes a session: by its layout, the path of its log or directory, and its id."""


class Processes(Protocol):
    """What the machine knows of processes that were recorded by pid, start time and boot; and runs to be started."""

    def host(self) -> str: ...

    def boot_id(self) -> str:
        """The name of this boot of the machine; empty where nobody may know it."""
        ...

    def booted_at(self) -> float | None:
        """When this machine started (Unix seconds); None where nobody may know."""
        ...

    def state(self, process: RecordedProcess) -> ProcessState: ...

    def descriptor(self, process: RecordedProcess) -> int | None:
        """A descriptor, its caller's to close, that becomes readable when this process ends; None where there is none."""
        ...

    def writers(self) -> WriterOf:
        """Whom to ask during one batch of looks: what is read for one session isn't read again for the next."""
        ...

    def launcher_of(self, process: RecordedProcess, layout: str, path: str) -> str | None:
        """The id of the launcher's session in which this process was started that writes the session at `path`.

        None where nobody knows, and where only others say that the process writes that session.
        """
        ...

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> Told | NotTold: ...

    def end_tree(self, processes: RunProcesses, directory: str) -> Told | NotTold:
        """Kill a run's launcher and command and all that descends from them, or says that it is of this directory."""
        ...

    def age(self, process: RecordedProcess) -> float | None:
        """Seconds since this process started, whether or not it lives; None where it is of another boot."""
        ...

    def start(self, order: StartRun, epoch: int) -> Begun | NotBegun: ...

    def forget_starts(self, owed: Collection[str]) -> None: ...


class Sight(NamedTuple):
    """What a look into a run directory found.

    `signatures` are those of every wanted document that is there, `documents` the ones that differ
    from what was known. `directory` is the directory's own signature, to skip a look next time.
    """

    directory: Signature
    signatures: tuple[tuple[str, Signature], ...]
    documents: tuple[Document, ...]


class Gone(NamedTuple):
    """There is no such directory, while the root that would hold it can be read."""


class Listing(NamedTuple):
    """The run directories inside a root, by name, and the names that can't be watched.

    Of a root of another tool's these are places: its sessions' logs, or directories. `unlisted` are the directories
    in it that couldn't be looked into: what was known there is not gone. `native` are our own runs among them, which
    want a root of their own.
    """

    directories: Mapping[str, Signature]
    unusable: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    native: tuple[str, ...] = ()


Journal: TypeAlias = tuple[str, str]
"""A run's directory and the name of the journal in it."""


class JournalLine(NamedTuple):
    """Bytes that are to stand once in the file `name` of `directory`, appended as a whole.

    `check` says that they may be there already, or in part (an earlier daemon owed them). `live` means
    that the run may be in the middle of a line. Where an earlier store may have written to this journal, `known` are
    our lines in it that this one knows, and others that say the same as these may stand there; else it is None.
    `only_first`: nothing is written where something stands already (`NotFirst`).
    """

    directory: str
    name: str
    content: bytes
    check: bool
    live: bool
    known: tuple[StandingLines, ...] | None = None
    only_first: bool = False


class NotFirst(NamedTuple):
    """The journal isn't empty: what stands in it has to be known before the line is written."""


class Appended(NamedTuple):
    """The lines stand at `offset`. `closed` bytes of a foreign torn line were closed off before them.

    `places` are their pieces (offset, length) in order, where something else stands between them. `adopted` is what
    stands there where that isn't the very content, but lines that say the same.
    """

    offset: int
    already: bool = False
    closed: int = 0
    places: tuple[tuple[int, int], ...] = ()
    adopted: bytes | None = None


class NotAppended(NamedTuple):
    """The line doesn't stand. `for_good` means that it never will: its directory is gone."""

    why: str
    for_good: bool = False


class StandingLines(NamedTuple):
    """Lines of ours that were written to a journal and synced, as the store remembers them.

    `row` is their number in the store; `places` as in `Appended`.
    """

    row: int
    content: bytes
    offset: int
    places: tuple[tuple[int, int], ...] = ()


LineState: TypeAlias = Literal["gone", "torn", "changed", "moved"]
"""What became of a line of ours: nothing or only its beginning is left, it was changed or taken out
in place, or it stands elsewhere in the file than where it was written."""


class AlteredLine(NamedTuple):
    """A line of ours that doesn't stand at `offset`, where it was written.

    `left` is how many bytes of a torn line are still there.
    """

    row: int
    state: LineState
    offset: int
    content: bytes
    left: int = 0


class Compared(NamedTuple):
    """Those of our lines in a journal that don't stand as they were written, in their order."""

    altered: tuple[AlteredLine, ...]


class PartsPlaced(NamedTuple):
    """The parts of a bundle have their names. `aside` are the names under which is kept what had them before."""

    aside: tuple[str, ...] = ()


class PartMissing(NamedTuple):
    """A part of a bundle lies neither in place nor under its temporary name."""

    name: str


class EpochPassed(Exception):
    """Another daemon has taken over the state directory: this one may do nothing any more."""


class Halted(Exception):
    """Hashing was to go no further."""


class Files(Protocol):
    """What the daemon does with agents' files, and with the inbox. Nothing here follows a link."""

    def standing(self, path: str) -> Standing | None: ...

    def know_roots(self, identities: Mapping[str, str | None]) -> None:
        """From here on the directories at these paths are known by these identities.

        Nothing is asked of what lies below a root while another directory stands in for it, and nothing written there.
        """
        ...

    def away(self, path: str) -> str | None:
        """Why nothing can be said of a path now: another directory stands where its root should; None where none does."""
        ...

    def list_root(self, root: str) -> Listing | Unreadable | Gone: ...

    def directory_signature(self, root: str, directory: str) -> Signature | None: ...

    def list_places(self, root: str, shape: Shape) -> Listing | Unreadable | Gone: ...

    def place_signature(self, root: str, place: str, shape: Shape) -> Signature | None: ...

    def identify(self, root: str, place: str, layouts: Layouts) -> Identity | Unreadable | None: ...

    def look_at_session(
        self,
        root: str,
        place: str,
        layout: LogLayout | DirectoryLayout,
        known: FilesRead,
        most_bytes: int,
        now: float,
    ) -> SessionSight | Unreadable | Gone: ...

    def look(
        self, root: str, directory: str, names: Sequence[str], known: Mapping[str, Signature]
    ) -> Sight | Unreadable | Gone: ...

    def unchanged(
        self, root: str, names: Sequence[str], known: Mapping[str, Mapping[str, Signature]]
    ) -> frozenset[str]: ...

    def artifacts(
        self, root: str, within: str, paths: Sequence[str | RuledPath]
    ) -> RootFacts | Unreadable: ...

    def early_legs(self, question: LegsBefore) -> EarlyLegs | Unreadable: ...

    def outcomes(
        self, path: str, artifacts_path: str, named: Sequence[str]
    ) -> tuple[OutcomeFile, ...] | Unreadable: ...

    def filled_without(self, plan: str, run: str, artifacts: str) -> tuple[str, ...]: ...

    def hashes(
        self, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
    ) -> RootHashes | Unreadable: ...

    def append(self, line: JournalLine, epoch: int) -> Appended | NotAppended | NotFirst: ...

    def check_epoch(self, epoch: int) -> None:
        """Raises `EpochPassed` where another daemon took the state directory over."""
        ...

    def leave_word(self, directory: str, name: str, content: bytes) -> RunPlace | Unreadable | Gone: ...

    def sync(self, journals: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], str]: ...

    def compare(
        self, directory: str, name: str, lines: Sequence[StandingLines]
    ) -> Compared | Gone | Unreadable: ...

    def told(self, layout: str, path: str, go_on: Callable[[int], bool]) -> Iterator[CallTold]:
        """What a session's files tell of its calls, in order. Raises `OSError`, and `Halted` where `go_on` says no."""
        ...

    def clear_parts(self, directory: str, names: Sequence[str]) -> Unreadable | Gone | None: ...

    def write_part(
        self, directory: str, name: str, chunks: Iterable[bytes]
    ) -> Part | Unreadable | NoDraft | Gone: ...

    def place_parts(
        self, directory: str, parts: Sequence[Part]
    ) -> PartsPlaced | PartMissing | Unreadable | Gone: ...

    def inbox(self) -> tuple[InboxFile, ...]: ...

    def clear(self, name: str, rejected: bool) -> None: ...
