"""The port to agents' files and to the inbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from runward.config.json_value import JsonValue
from runward.daemon.ports.inbox import InboxFile
from runward.handlers.model.files import RootFacts, RootHashes, RuledPath
from runward.handlers.model.unreadable import Unreadable

if TYPE_CHECKING:  # commands that only ask the store needn't load the scanners of all layouts
    from runward.daemon.ports.intents import IntentCursor, IntentsRead
    from runward.daemon.ports.session_reads import FilesRead, Identity, SessionSight
    from runward.handlers.calls import Told
    from runward.handlers.layouts.places import Shape
    from runward.handlers.layouts.registry import DirectoryLayout, Layouts, LogLayout
    from runward.handlers.model.approvals import LeftFiles, LeftPlace, WorkPlace
    from runward.handlers.model.bundle import NoDraft, WorkTree
    from runward.handlers.model.contracts import EarlyLegs, LegsBefore
    from runward.handlers.model.outcomes import BeingRead, OutcomeFile
    from runward.handlers.model.part import Part
    from runward.handlers.model.sessions import Complaint, Document, LastChange, Signature
    from runward.handlers.model.shows import PlayFiles
from runward.daemon.ports.journals import (
    Appended,
    Compared,
    JournalLine,
    NotAppended,
    NotFirst,
    StandingLines,
)
from runward.daemon.ports.processes import RunPlace


class ReplayStanding(NamedTuple):
    """The first `length` bytes of a file that may be Runward's replay, by their hash."""

    length: int
    sha256: str


class Standing(NamedTuple):
    """The directory at a path: which one it is, by device and inode, and whether it may be read."""

    identity: str
    readable: bool


class Sight(NamedTuple):
    """What a look into a run directory found.

    `signatures` are those of every wanted document that is there, `documents` the ones that differ
    from what was known. `directory` is the directory's own signature, to skip a look next time.
    """

    directory: Signature
    signatures: tuple[tuple[str, Signature], ...]
    documents: tuple[Document, ...]


class Mark(NamedTuple):
    """A directory's signature, and those of the files of interest that are in it."""

    directory: Signature
    files: tuple[tuple[str, Signature], ...]


class Gone(NamedTuple):
    """There is no such directory, while the root that would hold it can be read."""


class Listing(NamedTuple):
    """The run directories inside a root, by name, and the names that can't be watched.

    In a root of another tool these are places: its sessions' logs, or directories. `unlisted` are the directories in it
    that couldn't be looked into: what was known there is not gone. `native` are our own runs among them, which need a
    root of their own.
    """

    directories: Mapping[str, Signature]
    unusable: tuple[str, ...]
    unlisted: tuple[str, ...] = ()
    native: tuple[str, ...] = ()


class Halted(Exception):
    """Hashing was asked to stop."""


class CannotReadNow(Exception):
    """A file can't be read, but a later try may succeed. The message says which file, and why."""


class PartsPlaced(NamedTuple):
    """The parts of a bundle have their names. `aside` are the new names of what had those names before."""

    aside: tuple[str, ...] = ()


class PartMissing(NamedTuple):
    """A part of a bundle is neither in place nor under its temporary name."""

    name: str


class KeptAside(NamedTuple):
    """A file is not what was written to it. It is kept under this name; None if it no longer exists."""

    name: str | None


class CallsReading(Protocol):
    """The calls of one session, read piece by piece."""

    obstacles: list[Complaint]
    """Files that can't be read."""
    changed: list[str]
    """Files that were replaced since they were first read: nothing more is read from them."""

    def told(
        self, most_bytes: int | None = None, ends: Mapping[str, int] | None = None
    ) -> Iterator[Told]: ...

    @property
    def offsets(self) -> list[tuple[str, int]]:
        """How far each log was read."""
        ...


class Files(Protocol):
    """What the daemon does with agents' files, and with the inbox. Nothing here follows a link."""

    def standing(self, path: str) -> Standing | None: ...

    def know_roots(self, identities: Mapping[str, str | None]) -> None:
        """From here on the directories at these paths are known by these identities.

        While another directory is in the place of a root, nothing below it is read, and nothing is written there.
        """
        ...

    def away(self, path: str) -> str | None:
        """Why nothing can be said about a path now: another directory is in its root's place; else None."""
        ...

    def is_local(self, path: str) -> bool:
        """Whether only this machine's kernel writes the file system that the path is on; False if that can't be told."""
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

    def signature(self, root: str, directory: str, name: str) -> Signature | None:
        """The signature of a file in a run directory; None if there is none."""
        ...

    def unchanged(
        self, root: str, names: Sequence[str], known: Mapping[str, Mapping[str, Signature]]
    ) -> frozenset[str]: ...

    def mark_of(self, directory: str, names: Sequence[str]) -> Mark | None:
        """What tells this state of a directory and of the files with these names from the next; None if it can't be reached."""
        ...

    def is_as_marked(self, directory: str, mark: Mark) -> bool:
        """Whether no entry of the directory came or went since, and none of the marked files changed."""
        ...

    def artifacts(
        self, root: str, within: str, paths: Sequence[str | RuledPath]
    ) -> RootFacts | Unreadable: ...

    def change_of_run(self, path: str) -> LastChange | Unreadable | None:
        """When the files of the native run in this directory changed last; None if it has no `exit.json`."""
        ...

    def early_legs(self, question: LegsBefore) -> EarlyLegs | Unreadable: ...

    def outcomes(
        self, path: str, artifacts_path: str, named: Sequence[str]
    ) -> tuple[OutcomeFile, ...] | BeingRead | Unreadable: ...

    def play_files(self, path: str) -> PlayFiles | Unreadable:
        """What the play in this directory, and its show's, say of it."""
        ...

    def final_message(self, layout: str, path: str) -> str | Unreadable | None:
        """The agent's last message in a foreign session whose log is at `path`; None if nothing contains it."""
        ...

    def outcomes_digest(self, path: str) -> str | None:
        """What tells this state of the files with outcomes in the run directory `path` from the next; None without any."""
        ...

    def has_intents(self, path: str) -> bool:
        """Whether the run in this directory wrote intents."""
        ...

    def intents(self, path: str, cursor: IntentCursor, most: int, is_over: bool) -> IntentsRead | None:
        """Up to `most` lines after the cursor; None if there is no such file. Raises `OSError`."""
        ...

    def filled_without(self, plan: str, run: str, artifacts: str) -> tuple[str, ...]: ...

    def hashes(
        self, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
    ) -> RootHashes | Unreadable: ...

    def left(
        self, places: Sequence[LeftPlace], elsewhere: Sequence[WorkPlace], go_on: Callable[[int], bool]
    ) -> tuple[LeftFiles | Unreadable, ...]:
        """All files that runs left in these places and elsewhere, with their hashes. Raises `Halted` if `go_on` says
        no."""
        ...

    def append(self, lines: Sequence[JournalLine], epoch: int) -> list[Appended | NotAppended | NotFirst]:
        """Append lines to one journal, in order, up to the first one that can't be written. Raises `EpochPassed`."""
        ...

    def check_epoch(self, epoch: int) -> None:
        """Raises `EpochPassed` if another daemon took the state directory over."""
        ...

    def leave_word(self, directory: str, name: str, content: bytes) -> RunPlace | Unreadable | Gone: ...

    def sync(self, journals: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], str]: ...

    def compare(
        self, directory: str, name: str, lines: Sequence[StandingLines]
    ) -> Compared | Gone | Unreadable: ...

    def work_tree(self, cwd: str, since: float) -> WorkTree | None:
        """What changed since then in the git work tree around a directory; None without one, or if git doesn't say."""
        ...

    def told(self, layout: str, path: str, go_on: Callable[[int], bool]) -> Iterator[Told]:
        """What a session's files say about its calls, in order.

        Raises `Halted` if `go_on` says no, and `CannotReadNow`.
        """
        ...

    def calls(self, layout: str, path: str) -> CallsReading:
        """A reading of a session's calls, which begins with the first one."""
        ...

    def replay_standing(self, directory: str, name: str, most: int) -> ReplayStanding | Unreadable:
        """The first bytes of a replay that may have grown there, by their hash."""
        ...

    def shown_lines(
        self, directory: str, name: str, length: int, sha256: str
    ) -> Iterator[bytes] | Unreadable | None:
        """The lines that were shown of a replay; None if they are no longer there."""
        ...

    def write_lines(
        self, directory: str, name: str, at: int, lines: bytes
    ) -> KeptAside | Unreadable | Gone | None:
        """Put further lines of a replay at their place; None if they are there now."""
        ...

    def clear_parts(self, directory: str, names: Sequence[str]) -> Unreadable | NoDraft | Gone | None: ...

    def write_part(
        self, directory: str, name: str, chunks: Iterable[bytes]
    ) -> Part | Unreadable | NoDraft | Gone: ...

    def place_parts(
        self, directory: str, parts: Sequence[Part]
    ) -> PartsPlaced | PartMissing | Unreadable | NoDraft | Gone: ...

    def missing_parts(self, directory: str, names: Sequence[str]) -> list[str] | Unreadable | Gone:
        """Which of these names nothing in the directory of a bundle has."""
        ...

    def replace_parts(self, directory: str, parts: Sequence[Part]) -> Unreadable | None:
        """Give each part its name, replacing Runward's own part with that name."""
        ...

    def receipt(self, directory: str, attempt: int) -> dict[str, JsonValue] | Unreadable | None:
        """The fields of the receipt there; None if there is none that can be read."""
        ...

    def remove_parts(self, directory: str, names: Sequence[str]) -> Unreadable | None:
        """Remove parts of a bundle from our own state for good; `directory` is relative to it."""
        ...

    def inbox(self) -> tuple[InboxFile, ...]: ...

    def clear(self, name: str, rejected: bool) -> None: ...
