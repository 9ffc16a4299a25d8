"""Agents' files, and the inbox, as the daemon uses them."""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from runward.config.json_value import JsonValue
from runward.daemon.disk.durable import make_durably
from runward.daemon.disk.epoch import check_epoch, read_epoch
from runward.daemon.disk.file_systems import is_local
from runward.daemon.inbox import spool
from runward.daemon.inbox.spool import InboxFile
from runward.daemon.rundir import bundle_parts, journals, run_directories, session_places
from runward.daemon.rundir.artifacts import artifact_facts
from runward.daemon.rundir.bundle_parts import KeptAside, PartMissing, PartsPlaced, ReplayStanding
from runward.daemon.rundir.call_reading import CallReading, told_by
from runward.daemon.rundir.hashes import file_hashes
from runward.daemon.rundir.intents import IntentCursor, IntentsRead, has_intents, read_intents
from runward.daemon.rundir.journal_reading import Compared, compare
from runward.daemon.rundir.journals import Appended, JournalLine, NotAppended, NotFirst, StandingLines
from runward.daemon.rundir.left_files import left_files_in
from runward.daemon.rundir.legs import early_legs, filled_without
from runward.daemon.rundir.opening import ABSENT, Gone, unreadable
from runward.daemon.rundir.outcomes import outcomes_digest, outcomes_in
from runward.daemon.rundir.parts_syncing import sync_parts
from runward.daemon.rundir.play_files import play_files
from runward.daemon.rundir.report_reading import Reports
from runward.daemon.rundir.run_directories import change_of_run, leave_word
from runward.daemon.rundir.session_reading import (
    final_message,
    identify,
    look_at_session,
)
from runward.daemon.rundir.work_tree import work_tree_since
from runward.handlers.calls import Told
from runward.handlers.model.approvals import LeftFiles, LeftPlace, WorkPlace
from runward.handlers.model.bundle import NoDraft
from runward.handlers.model.contracts import EarlyLegs, LegsBefore
from runward.handlers.model.files import RootFacts, RootHashes, RuledPath, Signature, Unreadable
from runward.handlers.model.outcomes import BeingRead, OutcomeFile
from runward.handlers.model.part import Part
from runward.handlers.model.processes import RunPlace
from runward.handlers.model.sessions import LastChange
from runward.handlers.model.shows import PlayFiles

_Answer = TypeVar("_Answer")


class Files:
    """Agents' files, and the inbox, of the daemon whose state directory is `state`. A link is followed only
    where it stays inside the run's artifacts."""

    standing = staticmethod(run_directories.standing)
    list_root = staticmethod(run_directories.list_root)
    directory_signature = staticmethod(run_directories.directory_signature)
    look = staticmethod(run_directories.look)
    unchanged = staticmethod(run_directories.unchanged)
    signature_at = staticmethod(run_directories.signature_at)
    list_places = staticmethod(session_places.list_places)
    place_signature = staticmethod(session_places.place_signature)
    identify = staticmethod(identify)
    look_at_session = staticmethod(look_at_session)
    calls = staticmethod(CallReading)
    has_intents = staticmethod(has_intents)
    filled_without = staticmethod(filled_without)
    work_tree = staticmethod(work_tree_since)

    def __init__(self, state: Path) -> None:
        self._state = state
        self._roots: list[tuple[str, str, str | None]] = []
        """Each root's path, what the paths below begin with, and its identity."""
        self._reports = Reports()
        self._libc = ctypes.CDLL(None, use_errno=True)

    @staticmethod
    def kept_open() -> AbstractContextManager[None]:
        """Until the end, looks of this thread at sessions in the same database share a connection."""
        from runward.daemon.rundir.databases import (
            kept_open,  # a daemon without other tools' sessions needs none
        )

        return kept_open()

    def know_roots(self, identities: Mapping[str, str | None]) -> None:
        """From here on the directories at these paths are known by these identities.

        While another directory is in the place of a root, nothing below it is read, and nothing is written there.
        """
        self._roots = [(root, f"{root}/", identity) for root, identity in identities.items()]

    @property
    def known_roots(self) -> dict[str, str | None]:
        """What `know_roots` was told."""
        return {root: identity for root, _, identity in self._roots}

    def away(self, path: str) -> str | None:
        """Why nothing can be said about a path now: another directory is in its root's place; else None."""
        for root, below, identity in self._roots:
            if path.startswith(below) or path == root:
                # A root that can't be reached is not another root. Reading there fails with that error.
                standing = run_directories.identity(root)
                if standing is not None and standing != identity:
                    return f"the directory at {root} is not the one that is known"
        return None

    def is_local(self, path: str) -> bool:
        """Whether only this machine's kernel writes the file system that the path is on; False if that can't be told."""
        return is_local(path)

    def signature(self, root: str, directory: str, name: str) -> Signature | None:
        """The signature of a file in a run directory; None if there is none."""
        return run_directories.signature_at(f"{root}/{directory}/{name}")

    def artifacts(self, root: str, within: str, paths: Sequence[str | RuledPath]) -> RootFacts | Unreadable:
        return self._unless_away(within or root, artifact_facts(root, within, paths))

    def change_of_run(self, path: str) -> LastChange | Unreadable | None:
        """When the files of the native run in this directory changed last; None if it has no `exit.json`."""
        return self._unless_away(path, change_of_run(path))

    def early_legs(self, question: LegsBefore) -> EarlyLegs | Unreadable:
        return self._unless_away(question.within or question.root, early_legs(question))

    def outcomes(
        self, path: str, artifacts_path: str, named: Sequence[str]
    ) -> tuple[OutcomeFile, ...] | BeingRead | Unreadable:
        return self._unless_away(path, outcomes_in(path, artifacts_path, named, self._reports))

    def play_files(self, path: str) -> PlayFiles | Unreadable:
        """What the play in this directory, and its show's, say of it."""
        return self._unless_away(path, play_files(path))

    def final_message(self, layout: str, path: str) -> str | Unreadable | None:
        """The agent's last message in a foreign session whose log is at `path`; None if nothing contains it."""
        return self._unless_away(path, final_message(layout, path))

    def outcomes_digest(self, path: str) -> str | None:
        """What tells this state of the files with outcomes in the run directory `path` from the next; None without any."""
        return None if self.away(path) is not None else outcomes_digest(path)

    def intents(self, path: str, cursor: IntentCursor, most: int, is_over: bool) -> IntentsRead | None:
        """Up to `most` lines after the cursor; None if there is no such file. Raises `OSError`."""
        away = self.away(path)
        if away is not None:
            raise OSError(errno.ENOENT, away)
        lines = read_intents(path, cursor, most, is_over)
        if lines is None:
            self._check_root_of(path)
        return lines

    def _check_root_of(self, path: str) -> None:
        """Raise `OSError` if the root that this is in can't be reached: then nothing in it counts as removed."""
        for root, below, _ in self._roots:
            missing = run_directories.gone(root) if path.startswith(below) else None
            if isinstance(missing, Unreadable):
                raise OSError(errno.ENOENT, missing.why)

    def hashes(
        self, root: str, within: str, paths: Sequence[str], go_on: Callable[[int], bool]
    ) -> RootHashes | Unreadable:
        return self._unless_away(within or root, file_hashes(root, within, paths, go_on))

    def left(
        self, places: Sequence[LeftPlace], elsewhere: Sequence[WorkPlace], go_on: Callable[[int], bool]
    ) -> tuple[LeftFiles | Unreadable, ...]:
        """All files that runs left in these places and elsewhere, with their hashes. Raises `Halted` if `go_on` says
        no."""
        from runward.daemon.launch.worktree import place_of  # nothing for those without approvals

        worked = [
            each._replace(path=place_of(str(self._state), each.path)) if each.is_worktree else each
            for each in elsewhere
        ]
        ours = {os.path.realpath(each) for each in (str(self._state), *(root for root, _, _ in self._roots))}
        files = left_files_in(places, go_on, worked, ours)
        paths = [*(each.path for each in places), *(each.path for each in worked)]
        return tuple(self._unless_away(path, each) for path, each in zip(paths, files, strict=True))

    def append(self, lines: Sequence[JournalLine], epoch: int) -> list[Appended | NotAppended | NotFirst]:
        """Append lines to one journal, in order, up to the first one that can't be written. Raises `EpochPassed`."""
        directory = lines[0].directory
        if not os.path.isabs(directory):
            try:
                make_durably(self._state, directory)
            except OSError as error:
                return [NotAppended(f"{self._state}/{directory}: {error.strerror}")]
            directory = self._place(directory)
            # Nobody but us writes there: half a line is left from a crash, and nobody will end it.
            lines = [line._replace(directory=directory, live=False) for line in lines]
        elif (away := self.away(directory)) is not None:
            return [NotAppended(away)]
        results = journals.append(lines, epoch, lambda: read_epoch(self._state))
        last = results[-1]
        if isinstance(last, NotAppended) and last.for_good and (away := self.away(directory)) is not None:
            results[-1] = NotAppended(away)
        return results

    def check_epoch(self, epoch: int) -> None:
        """Raises `EpochPassed` if another daemon took the state directory over."""
        check_epoch(epoch, read_epoch(self._state))

    def leave_word(self, directory: str, name: str, content: bytes) -> RunPlace | Unreadable | Gone:
        away = self.away(directory)
        if away is not None:
            return Unreadable(away)
        return self._unless_away(directory, leave_word(directory, name, content))

    def sync(self, lines: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        journals_of = {(self._place(directory), name): (directory, name) for directory, name in lines}
        refused = journals.sync(list(journals_of), self._sync_file_system)
        refused |= {journal: why for journal in journals_of if (why := self.away(journal[0])) is not None}
        return {journals_of[journal]: why for journal, why in refused.items()}

    def compare(
        self, directory: str, name: str, lines: Sequence[StandingLines]
    ) -> Compared | Gone | Unreadable:
        if not os.path.isabs(directory):
            try:
                make_durably(
                    self._state, directory
                )  # the daemon that had to write its lines may have been killed before
            except OSError as error:
                return unreadable(error)
        return self._unless_away(directory, compare(self._place(directory), name, lines))

    def told(self, layout: str, path: str, go_on: Callable[[int], bool]) -> Iterator[Told]:
        """What a session's files say about its calls, in order.

        Raises `Halted` if `go_on` says no, and `CannotReadNow`.
        """
        return told_by(layout, path, go_on, waits=True)

    def length_of_log(self, path: str) -> int:
        """How many bytes a session's log has; 0 if the session is a directory, or its log can't be reached."""
        try:
            status = os.stat(path, follow_symlinks=False)
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def replay_standing(self, directory: str, name: str, most: int) -> ReplayStanding | Unreadable:
        """The first bytes of a replay that may have grown there, by their hash."""
        try:
            return self._in_place(directory, lambda place: bundle_parts.standing(place, name, most))
        except OSError as error:
            return unreadable(error)

    def shown_lines(
        self, directory: str, name: str, length: int, sha256: str
    ) -> Iterator[bytes] | Unreadable | None:
        """The lines that were shown of a replay; None if they are no longer there."""
        try:
            return self._in_place(
                directory, lambda place: bundle_parts.shown_lines(place, name, length, sha256)
            )
        except OSError as error:
            return unreadable(error)

    def write_lines(
        self, directory: str, name: str, at: int, lines: bytes
    ) -> KeptAside | Unreadable | Gone | None:
        """Put further lines of a replay at their place; None if they are there now."""
        return self._in_place(directory, lambda place: bundle_parts.write_lines(place, name, at, lines))

    def clear_parts(self, directory: str, names: Sequence[str]) -> Unreadable | NoDraft | Gone | None:
        return self._in_place(directory, lambda place: bundle_parts.clear_parts(place, names))

    def write_part(
        self, directory: str, name: str, chunks: Iterable[bytes], *, is_synced: bool = True
    ) -> Part | Unreadable | NoDraft | Gone:
        return self._in_place(
            directory, lambda place: bundle_parts.write_part(place, name, chunks, is_synced=is_synced)
        )

    def sync_parts(self, written: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
        """Make these files in directories of bundles durable; returns for which directories that failed, and why."""
        directories = {self._place(directory): directory for directory in written}
        refused = sync_parts(
            {place: written[directory] for place, directory in directories.items()}, self._sync_file_system
        )
        # After the syncs: a directory that seems to be gone may be in a root that another one covers.
        away = {
            place: why
            for place, directory in directories.items()
            if os.path.isabs(directory) and (why := self.away(place)) is not None
        }
        return {directories[place]: why for place, why in (refused | away).items()}

    def place_parts(
        self, directory: str, parts: Sequence[Part], *, is_synced: bool = True
    ) -> PartsPlaced | PartMissing | Unreadable | NoDraft | Gone:
        return self._in_place(
            directory, lambda place: bundle_parts.place_parts(place, parts, is_synced=is_synced)
        )

    def missing_parts(self, directory: str, names: Sequence[str]) -> list[str] | Unreadable | Gone:
        """Which of these names nothing in the directory of a bundle has."""
        return self._in_place(directory, lambda place: bundle_parts.missing_parts(place, names))

    def replace_parts(self, directory: str, parts: Sequence[Part]) -> Unreadable | None:
        """Give each part its name, replacing Runward's own part with that name."""
        return self._in_place(directory, lambda place: bundle_parts.replace_parts(place, parts))

    def receipt(self, directory: str, attempt: int) -> dict[str, JsonValue] | Unreadable | None:
        """The fields of the receipt there; None if there is none that can be read."""
        return self._in_place(directory, lambda place: _receipt(place, attempt))

    def remove_parts(self, directory: str, names: Sequence[str]) -> Unreadable | None:
        """Remove parts of a bundle from our own state for good; `directory` is relative to it."""
        return bundle_parts.remove_parts(self._place(directory), names)

    def _in_place(self, directory: str, act: Callable[[str], _Answer]) -> _Answer | Unreadable:
        """Do something in the directory of a bundle: below a root only if that is itself; our own is made first."""
        if os.path.isabs(directory):
            away = self.away(directory)
            return act(directory) if away is None else Unreadable(away)
        try:
            make_durably(self._state, directory)
        except OSError as error:
            return unreadable(error)
        return act(self._place(directory))

    def inbox(self) -> tuple[InboxFile, ...]:
        return spool.list_inbox(self._state)

    def clear(self, name: str, rejected: bool) -> None:
        spool.clear(self._state, name, rejected)

    def _place(self, directory: str) -> str:
        """A journal's directory; a relative one is among our own state."""
        return os.path.join(self._state, directory)

    def _unless_away(self, path: str, answer: _Answer) -> _Answer | Unreadable:
        """What was found at a path, unless another directory was in its root's place at that time."""
        # After the reading: another disk may have been mounted there meanwhile.
        away = self.away(path)
        return answer if away is None else Unreadable(away)

    def _sync_file_system(self, descriptor: int) -> None:
        if self._libc.syncfs(descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))


def _receipt(directory: str, attempt: int) -> dict[str, JsonValue] | Unreadable | None:
    from runward.daemon.rundir.bundle_verifying import receipt_fields  # imports the whole check of bundles

    try:
        return receipt_fields(directory, attempt)
    except OSError as error:
        return None if error.errno in ABSENT else unreadable(error)
