"""Everything that runs left on the disk, for an approval: each file with its hash, or with what else binds it.

No link is followed. The files are listed first and hashed afterwards, the smallest first, so that a giant takes no hash
from the others. Three bounds hold for all the places of one call: the files that are listed one by one, the entries that
are looked at, and the bytes that are hashed.

Outside the run directories, the kernel's time of the last change (ctime) tells what steps left: nobody but root can set
it back. In a worktree it only says which files are shown one by one; the others are bound together.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from runward.daemon.rundir import hashes
from runward.daemon.rundir.opening import (
    ABSENT,
    DIRECTORY,
    LINK,
    LISTED,
    REFUSED,
    REGULAR,
    ROOT,
    Halted,
    opened,
    opened_below,
    unreadable,
)
from runward.daemon.rundir.work_tree import checked_out
from runward.handlers import left_files
from runward.handlers.bundle.parts import is_part_or_temporary
from runward.handlers.exchange.intent import RESULTS
from runward.handlers.journal.lines import EVENTS
from runward.handlers.model.approvals import FileIdentity, LeftFile, LeftFiles, LeftPlace, WorkPlace
from runward.handlers.model.files import FileHash, Unreadable

DEEPEST: Final = 40
"""Directories below a run's own: each one is open while what is in it is listed."""

_EVERYTHING: Final = "."
_NANOSECONDS: Final = 1e9
_ROUNDING_S: Final = 1e-6


class _Entry(NamedTuple):
    """What was found at a path below a place; `state` is set if it isn't a regular file that could be hashed."""

    path: str
    state: str | None
    identity: FileIdentity
    target: str | None = None


def left_files_in(
    places: Sequence[LeftPlace],
    go_on: Callable[[int], bool],
    elsewhere: Sequence[WorkPlace] = (),
    ours: Collection[str] = (),
) -> tuple[LeftFiles | Unreadable, ...]:
    """What each run left, and then what steps left elsewhere. `go_on` is that of `file_hashes`. Raises `Halted`.

    What is below the real paths `ours` is left out where it is in a directory elsewhere: Runward writes there.
    """
    reading = _Reading(go_on, left_files.MOST_SEEN)
    listed = [reading.list(place) for place in places]
    reading.turn_elsewhere(left_files.MOST_SEEN_ELSEWHERE, frozenset(ours))
    listed += [reading.list(place) for place in elsewhere]
    reading.hash()
    return tuple(each if isinstance(each, Unreadable) else reading.found(each) for each in listed)


class _Listed:
    """The entries of a place that are shown one by one, and what binds the others."""

    def __init__(self, place: LeftPlace | WorkPlace) -> None:
        self.place = place
        self.real_path = os.path.realpath(place.path) if isinstance(place, WorkPlace) else None
        self.entries: dict[tuple[str, str], _Entry] = {}
        self.states: dict[tuple[str, str], LeftFile] = {}
        self.others = 0
        self.digest = hashlib.sha256()
        self.is_whole = True
        self.is_there = False
        self.commit: LeftFile | None = None

    def counts(self, identity: FileIdentity) -> bool:
        """Whether steps may have left it: a file where others work must have changed in their time."""
        place = self.place
        if isinstance(place, LeftPlace) or place.is_worktree:
            return True
        changed_at = identity.ctime_ns / _NANOSECONDS
        return changed_at >= place.since - _ROUNDING_S and (place.until is None or changed_at <= place.until)

    def is_shown(self, entry: _Entry) -> bool:
        """Whether it is shown by itself: in a worktree, what nobody changed is not."""
        place = self.place
        return (
            isinstance(place, LeftPlace)
            or entry.state in left_files.UNBOUND
            or entry.identity.ctime_ns / _NANOSECONDS >= place.since - _ROUNDING_S
        )


class _Reading:
    """One call."""

    def __init__(self, go_on: Callable[[int], bool], most_seen: int) -> None:
        self._go_on = go_on
        self._bytes = hashes.MOST
        self._listed = left_files.MOST_LISTED
        self._seen = most_seen
        self._ours: frozenset[str] = frozenset()
        self._to_hash: list[tuple[int, str, str, _Listed]] = []

    def turn_elsewhere(self, most_seen: int, ours: frozenset[str]) -> None:
        """What is listed from now on is outside the run directories: it has a bound of its own."""
        self._seen, self._ours = most_seen, ours

    def list(self, place: LeftPlace | WorkPlace) -> _Listed | Unreadable:
        """List a place without reading any file."""
        listed = _Listed(place)
        if listed.real_path in self._ours:
            listed.is_there, listed.is_whole = True, False
            return listed
        if isinstance(place, WorkPlace) and place.is_worktree:
            listed.commit = _commit(place.path)
        for root in _roots(place):
            try:
                with opened(root, _flags(place, root)) as top, opened(".", LISTED, top) as directory:
                    listed.is_there = True
                    for entry in self._entries(directory, "", 0, listed, is_run=root == place.path):
                        self._take(listed, root, entry)
            except OSError as error:
                if error.errno in REFUSED or error.errno == LINK:
                    listed.is_there, listed.is_whole = True, False
                elif error.errno not in ABSENT:
                    return unreadable(error)
        return listed

    def _take(self, listed: _Listed, root: str, entry: _Entry) -> None:
        if entry.state != "not_listed" and not listed.counts(entry.identity):
            return
        if self._listed == 0 or not listed.is_shown(entry):
            if entry.state in left_files.UNBOUND:
                listed.is_whole = False
                return
            listed.others += 1
            listed.digest.update(f"{entry.path!r} {tuple(entry.identity)} {entry.target!r}\n".encode())
            return
        self._listed -= 1
        listed.entries[root, entry.path] = entry
        if entry.state is None:
            self._to_hash.append((entry.identity.size, root, entry.path, listed))

    def _entries(
        self, directory: int, before: str, depth: int, listed: _Listed, *, is_run: bool
    ) -> Iterator[_Entry]:
        """The entries of an open directory and of those below it, sorted by name. Raises `OSError`."""
        with os.scandir(directory) as entries:
            names = [each.name for each in islice(entries, self._seen + 1)]
        if len(names) > self._seen:
            listed.is_whole = False
            return
        self._seen -= len(names)
        for name in sorted(names):
            if not self._go_on(0):
                raise Halted
            if is_run and not before and _is_own(name):
                continue
            path = before + name
            try:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    yield _entry(directory, name, path, status)
                elif listed.real_path is not None and os.path.join(listed.real_path, path) in self._ours:
                    continue
                elif depth == DEEPEST:
                    yield _Entry(path, "not_listed", _identity(status))
                else:
                    yield from self._below(
                        directory, name, path=path, status=status, depth=depth, listed=listed
                    )
            except FileNotFoundError:
                continue  # gone since it was listed

    def _below(
        self, within: int, name: str, *, path: str, status: os.stat_result, depth: int, listed: _Listed
    ) -> Iterator[_Entry]:
        try:
            with opened(name, LISTED, within) as directory:
                yield from self._entries(directory, f"{path}/", depth + 1, listed, is_run=False)
        except PermissionError:
            yield _Entry(path, "denied", _identity(status))

    def hash(self) -> None:
        """Hash what is listed, the smallest first."""
        # So that one large file does not take the budget of all the small ones.
        for size, root, path, listed in sorted(self._to_hash, key=lambda each: each[:3]):
            entry = listed.entries[root, path]
            if size == 0:
                hashed = FileHash("empty")
            elif size > self._bytes:
                hashed = FileHash("too_large", size)
            else:
                hashed = self._digest(listed.place, root, entry)
            identity = entry.identity if hashed.state == "too_large" else None
            listed.states[root, path] = LeftFile(path, hashed.state, hashed.size, hashed.sha256, identity)

    def _digest(self, place: LeftPlace | WorkPlace, root: str, entry: _Entry) -> FileHash:
        *parts, name = entry.path.split("/")
        try:
            with (
                opened(root, _flags(place, root)) as within,
                opened_below(within, parts) as parent,
                opened(name, REGULAR, parent) as descriptor,
            ):
                # The approval shows what was listed: another file under the same name must not pass for it.
                if _identity(os.fstat(descriptor)) != entry.identity:
                    return FileHash("changing")
                return hashes.digest(descriptor, self._bytes, self._counted)
        except PermissionError:
            return FileHash("denied")
        except OSError as error:
            gave_way = error.errno in ABSENT or error.errno == LINK
            return FileHash("changing" if gave_way else "unreadable")

    def _counted(self, count: int) -> bool:
        self._bytes -= count
        return self._go_on(count)

    def found(self, listed: _Listed) -> LeftFiles:
        """All that is known of a place, with the paths as people see them."""
        place = listed.place
        files: list[LeftFile] = []
        for (root, path), entry in listed.entries.items():
            shown = _from_artifacts(place, root, path)
            known = listed.states.get((root, path))
            if known is None:
                known = LeftFile(
                    shown,
                    entry.state,  # type: ignore[arg-type]  # only what is not hashed is left
                    entry.identity.size if entry.state == "not_regular" else 0,
                    target=entry.target,
                )
            changed_at = entry.identity.ctime_ns / _NANOSECONDS if isinstance(place, WorkPlace) else None
            files.append(known._replace(path=shown, changed_at=changed_at))
        files.sort(key=lambda each: each.path)
        everything = _from_artifacts(place, place.path, _EVERYTHING) if listed.real_path else _EVERYTHING
        if listed.others:
            digest = listed.digest.hexdigest()
            files.append(LeftFile(everything, "many", sha256=digest, number=listed.others))
        if not listed.is_whole:
            files.append(LeftFile(everything, "not_listed"))
        if isinstance(place, LeftPlace):
            return LeftFiles((*files, *self._named(place, {each.path for each in files})))
        if not listed.is_there:
            return LeftFiles((LeftFile(_visible(place.path), "absent"),))
        return LeftFiles((*([listed.commit] if listed.commit else []), *files))

    def _named(self, place: LeftPlace, known: set[str]) -> Iterator[LeftFile]:
        """The paths that a contract or an outcome names and that are not among the files: through links, or gone."""
        names = [each for each in dict.fromkeys(place.named) if _visible(each) not in known]
        if not names:
            return
        within = place.path if place.artifacts_path.startswith(f"{place.path}/") else ""
        answer = hashes.file_hashes(place.artifacts_path, within, names, self._counted, self._bytes)
        if isinstance(answer, Unreadable):
            yield from (LeftFile(_visible(name), "unreadable") for name in names)
            return
        for name, each in zip(names, answer.for_each(len(names)), strict=True):
            if each.state == "too_large":
                yield LeftFile(_visible(name), "unreadable")  # through a link, so its identity is not bound
            else:
                yield LeftFile(_visible(name), each.state, each.size, each.sha256)


def _commit(worktree: str) -> LeftFile | None:
    """What binds a worktree beside its files."""
    if not os.path.lexists(worktree):
        return None
    checkout = checked_out(worktree)
    if checkout is None:
        return LeftFile(_visible(worktree), "unreadable")
    return LeftFile(_visible(worktree), "commit", sha256=checkout.staged, target=checkout.commit)


def _roots(place: LeftPlace | WorkPlace) -> tuple[str, ...]:
    """The directories to list: the run's, and its artifacts' unless they are in it."""
    if isinstance(place, WorkPlace):
        return (place.path,)
    if place.artifacts_path == place.path or place.artifacts_path.startswith(f"{place.path}/"):
        return (place.path,)
    return (place.path, place.artifacts_path)


def _flags(place: LeftPlace | WorkPlace, root: str) -> int:
    """How a place is opened: the run's directory and a worktree may be no link."""
    if isinstance(place, WorkPlace):
        return DIRECTORY if place.is_worktree else ROOT
    return DIRECTORY if root == place.path else ROOT


def _is_own(name: str) -> bool:
    """Whether Runward itself writes this entry of a run's directory after the run is over."""
    return name in (EVENTS, RESULTS) or is_part_or_temporary(name)


def _identity(status: os.stat_result) -> FileIdentity:
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _entry(directory: int, name: str, path: str, status: os.stat_result) -> _Entry:
    if stat.S_ISREG(status.st_mode):
        return _Entry(path, None, _identity(status))
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return _Entry(path, "link", _identity(status), _visible(target))
    return _Entry(path, "not_regular", _identity(status))


def _from_artifacts(place: LeftPlace | WorkPlace, root: str, path: str) -> str:
    """A path as it is seen from the artifacts: that is where the paths of contracts begin."""
    if isinstance(place, WorkPlace):
        return _visible(f"{root}/{path}")
    if root == place.artifacts_path:
        return _visible(path)
    if place.artifacts_path.startswith(f"{root}/"):
        return _visible(os.path.relpath(f"/{path}", f"/{place.artifacts_path[len(root) + 1 :]}"))
    return _visible(f"{root}/{path}")


def _visible(path: str) -> str:
    """A path as text that can be stored, also if it isn't UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")
