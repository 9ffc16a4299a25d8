"""Files whose changes fire chains: each change is reported once, when the file has been unchanged for 2 s.

Notifications only say when to look. A look compares what it finds with the last reported change, which the store keeps.
So it also finds a change that happened while no daemon ran. What existed when a glob was first seen is not reported.
"""

import math
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar, Final, NamedTuple

import anyio
import anyio.to_thread

from runward.config.glob_rule import ANY_DEPTH
from runward.config.json_value import is_text
from runward.config.own_events import FileChanged
from runward.config.trigger import FILE_CHANGED
from runward.daemon.engine.part import Part
from runward.daemon.store.batch import Rows
from runward.daemon.store.tables import chain_runs, triggers
from runward.daemon.watch.notifications import WatchedDirectories
from runward.daemon.world.clock import until_beat
from runward.handlers.model.chains import EventOccurred

MOST_FILES: Final = 1000
"""Files that one glob may match."""

MOST_UNNAMED: Final = 3

MOST_DIRECTORIES: Final = 1000
"""Directories that are looked into for one glob."""

_WILD: Final = "*?["


@dataclass(slots=True)
class Matching:
    """The regular files that a glob matches, each with its signature, and the directories that were looked into.

    With a `problem`, this is unknown: the rest does not count.
    """

    files: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    problem: str | None = None
    unnamed: list[str] = field(default_factory=list)
    """The first files that match and whose names are not UTF-8, printable: their changes can't be reported."""


class _TooMany(Exception):
    """There are more than may be watched."""


def matching(glob: str) -> Matching:
    """What an absolute glob matches now."""
    names = [name for name in glob.split("/") if name]
    literal = next((at for at, name in enumerate(names) if _is_wild(name)), len(names) - 1)
    base = "/" + "/".join(names[:literal])
    matches = Matching()
    try:
        for path, wanted in _walk(base, tuple(names[literal:]), matches):
            if wanted:
                _add(matches, path)
    except _TooMany as error:
        return Matching(problem=f"{glob} {error}, so its files are not watched: narrow it")
    except OSError as error:
        return Matching(problem=f"{error.filename or base} can't be read: {error.strerror}")
    if not matches.directories:
        matches.directories.append(_nearest(base))
    return matches


def _is_wild(name: str) -> bool:
    return name == ANY_DEPTH or any(each in name for each in _WILD)


def _walk(base: str, pattern: tuple[str, ...], matches: Matching) -> Iterator[tuple[str, bool]]:
    """The paths of all non-directories below `base`, and whether each one matches the rest of the glob."""
    waiting = [(base, frozenset(_after_any_depth(pattern, 0)))]
    while waiting:
        directory, places = waiting.pop()
        try:
            with os.scandir(directory) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        # It vanished while we walked: its files are found removed by the comparison.
        except (FileNotFoundError, NotADirectoryError):
            continue
        matches.directories.append(directory)
        if len(matches.directories) > MOST_DIRECTORIES:
            raise _TooMany(f"covers more than {MOST_DIRECTORIES} directories, such as {directory}")
        for entry in entries:
            further = _further(pattern, places, entry.name)
            # No link is followed: below a glob's base, anybody may put one.
            if entry.is_dir(follow_symlinks=False):
                if further - {len(pattern)}:
                    waiting.append((entry.path, further))
            else:
                yield entry.path, len(pattern) in further


def _further(pattern: tuple[str, ...], places: frozenset[int], name: str) -> frozenset[int]:
    """The position in the pattern after this name."""
    after: set[int] = set()
    for at in places:
        if at < len(pattern) and pattern[at] == ANY_DEPTH:
            after.update(_after_any_depth(pattern, at))
        elif at < len(pattern) and fnmatchcase(name, pattern[at]):
            after.update(_after_any_depth(pattern, at + 1))
    return frozenset(after)


def _after_any_depth(pattern: tuple[str, ...], at: int) -> Iterator[int]:
    yield at
    while at < len(pattern) and pattern[at] == ANY_DEPTH:
        at += 1
        yield at


def _add(matches: Matching, path: str) -> None:
    if not is_text(path):
        if len(matches.unnamed) < MOST_UNNAMED:
            matches.unnamed.append(os.fsencode(path).decode(errors="backslashreplace"))
        return
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    # Only regular files: to look at anything else could block, or mean nothing.
    if not stat.S_ISREG(status.st_mode):
        return
    matches.files[path] = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
    if len(matches.files) > MOST_FILES:
        raise _TooMany(f"matches more than {MOST_FILES} files, such as {path}")


def _nearest(directory: str) -> str:
    """The directory itself, or its innermost existing ancestor."""
    while directory != "/" and not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


SETTLED: Final = 2.0
"""Seconds for which a file must be unchanged."""

_MOST_NAMED: Final = 3
"""Files of chains that a problem names."""

GLOBS_PERIOD: Final = 5.0
"""Seconds between two looks at which globs chains name."""

AFTERWARDS: Final = 5.0
"""Seconds after the end of a step for which a change where it worked counts as its own."""

LOOKS_APART: Final = 0.25
"""The shortest time between two looks, because a file that is always written to causes endless notifications."""

Tell = Callable[[EventOccurred | None, Sequence[Rows]], None]
"""Has a change recorded, with what is kept of it in the same transaction."""


class _Unsettled(NamedTuple):
    """The state of a file (None: removed) that differs from the reported one, and since when (monotonic clock)."""

    signature: str | None
    since: float


class _Change(NamedTuple):
    """A change: the real path of its file, when it happened at the earliest, and when it was seen (Unix seconds)."""

    path: str
    at: float
    seen: float

    @classmethod
    def of(cls, path: str, seen: float) -> "_Change":
        """The change of this file. For a removed one, the time is when that was seen."""
        try:
            # The kernel's time of the last change counts, which the writer of a file can't set.
            changed = os.lstat(path).st_ctime
        except OSError:
            changed = seen
        return cls(os.path.realpath(path), min(changed, seen), seen)

    def may_be_of(self, step: chain_runs.StepPlaces) -> bool:
        """Whether the step ran then, or had just ended."""
        return step.began_at <= self.seen and (step.ended_at is None or self.at < step.ended_at + AFTERWARDS)

    def is_below(self, directories: Sequence[str]) -> bool:
        """Whether the file is below one of these."""
        return any(self.path.startswith(f"{each.rstrip('/')}/") for each in directories)


def _real(step: chain_runs.StepPlaces, state: str) -> list[str]:
    """The real paths of the directories in which a step works."""
    from runward.daemon.launch.worktree import place_of  # nothing for those whose chains wait for no file

    return [os.path.realpath(each) for each in (step.directory, step.cwd, place_of(state, step.name))]


@dataclass(slots=True)
class ChangedFiles(Part):
    """Looks at the files that chains name, and reports those that changed."""

    globs: Callable[[], Mapping[str, Sequence[str]]]
    """What chains name, each glob with the files of these chains."""
    tell: Tell
    watched: WatchedDirectories
    watch_again: Callable[[], None]
    period: Callable[[], float]
    """Seconds between two looks if no notification arrives."""
    state: str
    """The state directory, which has the worktrees of steps."""
    _known: dict[str, dict[str, str]] | None = None
    _unsettled: dict[str, _Unsettled] = field(default_factory=dict)
    _problems: tuple[str, ...] = ()
    _asked: bool = True
    _seen: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _looked: float = -math.inf

    is_owed: ClassVar[bool] = False

    def degraded(self) -> list[str]:
        """What can't be watched, for `status`."""
        return [f"file.changed: {each}" for each in self._problems]

    def wake(self) -> None:
        """Something changed."""
        self._asked = True
        Part.wake(self)

    async def begin(self) -> None:
        """Have the watcher report changes here."""
        self.watched.changed = self.wake

    async def carry_out(self) -> bool:
        """Look, if that is due, at most every `LOOKS_APART` seconds."""
        now = self.clock.monotonic()
        if now - self._looked < LOOKS_APART:
            return False
        globs = await anyio.to_thread.run_sync(self.globs)
        if globs != self._seen or self._asked or self._unsettled or now - self._looked >= self.period():
            # Reset before the look, so that a change during it leads to another one.
            self._asked, self._seen, self._looked = False, globs, now
            await self.look(globs)
        return False

    def pause(self) -> float:
        """Until the next file may have settled, or chains may name other globs."""
        now = self.clock.monotonic()
        soon = [each.since + SETTLED - now for each in self._unsettled.values()]
        if self._asked:
            soon.append(self._looked + LOOKS_APART - now)
        return max(0.05, min([until_beat(GLOBS_PERIOD), *soon]))

    async def look_once(self) -> None:
        """Look at everything, and again at files that may still be written to: for a daemon that works once."""
        await self.look(await anyio.to_thread.run_sync(self.globs))
        if self._unsettled:
            await anyio.sleep(SETTLED + 0.1)
            await self.look(await anyio.to_thread.run_sync(self.globs))

    async def look(self, globs: Mapping[str, Sequence[str]]) -> None:
        """Compare the files with what is known of them."""
        try:
            if self._known is None:
                self._known = await triggers.known_files(self.store)
        except sqlite3.Error as error:
            self.log.warning("files.not_compared", why=str(error))
            return
        if not globs and not self._known:
            return
        matches = await anyio.to_thread.run_sync(lambda: {glob: matching(glob) for glob in globs})
        self._note_problems(matches, globs)
        self._define(matches, self._known)
        files = {glob: each.files for glob, each in matches.items() if each.problem is None}
        await self._compare(files, self._known)
        directories = frozenset(path for each in matches.values() for path in each.directories)
        if directories != self.watched.paths:
            # The watch changes only when its directories do: to set it up again costs a scan.
            self.watched.paths = directories
            self.watch_again()

    def _note_problems(self, matches: dict[str, Matching], globs: Mapping[str, Sequence[str]]) -> None:
        problems = (
            *(
                f"{', '.join(globs[glob][:_MOST_NAMED])}: {each.problem}"
                for glob, each in matches.items()
                if each.problem is not None
            ),
            *dict.fromkeys(
                f"the name of {path} is not UTF-8, so its changes are not reported: rename it"
                for each in matches.values()
                for path in each.unnamed
            ),
        )
        for problem in problems:
            if problem not in self._problems:
                self.log.warning("files.not_watched", why=problem)
        self._problems = problems

    def _define(self, matches: dict[str, Matching], known: dict[str, dict[str, str]]) -> None:
        """Record what exists where a glob is new, and forget globs that are no longer needed."""
        for glob in [each for each in known if each not in matches]:
            del known[glob]
            self.tell(
                None,
                (Rows(triggers.UNWATCH, [(glob,)]), Rows(triggers.UNWATCH_FILES, [(glob,)])),
            )
        for glob, each in matches.items():
            # What exists when a glob is new is not a change. It is only recorded.
            if glob in known or each.problem is not None:
                continue
            known[glob] = dict(each.files)
            rows = [(glob, path, signature) for path, signature in each.files.items()]
            since = Rows(triggers.WATCH, [(glob, self.clock.now())])
            self.tell(None, (since, Rows(triggers.KEEP_FILE, rows)))
            self.log.info("files.watched", glob=glob, files=len(rows))

    async def _compare(self, signatures: dict[str, dict[str, str]], known: dict[str, dict[str, str]]) -> None:
        now = self.clock.monotonic()
        differing: dict[str, list[str]] = {}
        for glob, files in signatures.items():
            for path in files.keys() | known[glob].keys():
                if files.get(path) != known[glob].get(path):
                    differing.setdefault(path, []).append(glob)
        unsettled: dict[str, _Unsettled] = {}
        settled: dict[str, float] = {}
        for path, globs in sorted(differing.items()):
            signature = signatures[globs[0]].get(path)
            before = self._unsettled.get(path)
            # A file that is still being written is not reported: each new state begins the wait anew.
            since = before.since if before is not None and before.signature == signature else now
            if now - since < SETTLED:
                unsettled[path] = _Unsettled(signature, since)
            else:
                settled[path] = self.clock.now() - (now - since)
        try:
            # Without the cause, a step that writes what its own chain watches would fire it for ever.
            causes = await self._causes(settled) if settled else {}
        except sqlite3.Error as error:  # they stay unsettled until the next look
            self.log.warning("files.not_compared", why=str(error))
            return
        self._unsettled = unsettled
        for path in settled:
            globs = differing[path]
            self._tell_of(path, globs, signatures[globs[0]].get(path), known, causes.get(path))

    async def _causes(self, settled: dict[str, float]) -> dict[str, str]:
        """The chain runs whose steps work, or worked until a moment before, where these files changed.

        `settled` has the paths, and when each change was seen. Without this, a step that writes what its own chain
        watches would fire it for ever.
        """
        changed = await anyio.to_thread.run_sync(
            lambda: {path: _Change.of(path, settled[path]) for path in settled}
        )
        since = min(each.at for each in changed.values()) - AFTERWARDS
        steps = await chain_runs.places_of_steps(self.store, since)
        if not steps:
            return {}
        places = await anyio.to_thread.run_sync(lambda: [_real(step, self.state) for step in steps])
        return {
            path: max(causes)[1]
            for path, change in changed.items()
            if (
                causes := [
                    (step.depth, step.run)
                    for step, directories in zip(steps, places, strict=True)
                    if change.may_be_of(step) and change.is_below(directories)
                ]
            )
        }

    def _tell_of(
        self,
        path: str,
        globs: list[str],
        signature: str | None,
        known: dict[str, dict[str, str]],
        by_run: str | None,
    ) -> None:
        """Report one change, once for all globs."""
        was_known = any(path in known[glob] for glob in globs)
        change = "deleted" if signature is None else "modified" if was_known else "created"
        at = self.clock.now()
        identifier = f"{path}@{at!r}"
        event = EventOccurred(
            f"{FILE_CHANGED}/{identifier}",
            at,
            FILE_CHANGED,
            identifier,
            FileChanged(path, change)._asdict(),
            by_run=by_run,
        )
        for glob in globs:
            if signature is None:
                del known[glob][path]
            else:
                known[glob][path] = signature
        gone = [(glob, path) for glob in globs if signature is None]
        kept = [(glob, path, signature) for glob in globs if signature is not None]
        self.tell(event, (Rows(triggers.FILE_GONE, gone), Rows(triggers.KEEP_FILE, kept)))
