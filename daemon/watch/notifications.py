"""Notifications from inotify, by one watcher over all roots: hints, and never the truth.

The watcher runs in a thread of its own, because setting it up walks every directory and waiting in it blocks. It
filters out only Runward's own files, and the agents' growing files in directories that are already known.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

import anyio
import anyio.from_thread
import anyio.to_thread

from runward.config.json_value import is_text
from runward.daemon.watch.directories import Directories, Overflow
from runward.daemon.watch.hints import ITSELF, Target
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.layouts.native import is_untelling
from runward.handlers.layouts.places import DatabaseShape


@dataclass(slots=True)
class WatchedDirectories:
    """Directories that the watcher watches for somebody else, flat, and whom it notifies of a change there."""

    paths: frozenset[str] = frozenset()
    changed: Callable[[], None] = lambda: None


TIMEOUT_MS: Final = 5000
"""The longest time that the watcher waits before it checks its stop flag. Shorter waits cost more when idle."""

COST_FACTOR: Final = 100.0
"""The plan is looked through again after at least this many times its cost."""

FLAT_COST_FACTOR: Final = 1000.0
"""Where roots are watched flat only for their size, they are counted again after at least this many times the cost."""

REFUSED_PAUSE: Final = 600.0
"""Seconds for which no root is watched to the bottom after the system ran out of watches."""

LIMITS: Final[Mapping[str, Path]] = {
    "fs.inotify.max_user_watches": Path("/proc/sys/fs/inotify/max_user_watches"),
    "user.max_inotify_watches": Path("/proc/sys/user/max_inotify_watches"),
}
"""The kernel settings that limit the watches of a user, and of a user namespace."""

OLDEST_LIMIT: Final = (8192, "fs.inotify.max_user_watches")
"""The kernel's oldest default, where it doesn't say."""


@dataclass(frozen=True, slots=True)
class Watching:
    """How the roots are watched now: how many watches there are, which roots only flat or not at all, and why.

    `lost` says why the previous watch failed.
    """

    watched: int
    flat: tuple[str, ...]
    why: Mapping[str, str] = field(default_factory=dict)
    unwatched: tuple[str, ...] = ()
    lost: str | None = None


class Notifications(Protocol):
    """The source of hints; a simulation has its own."""

    async def watch(
        self,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None: ...


class Pulse:
    """A thread's sign of progress: when it last beat, by the monotonic clock."""

    def __init__(self) -> None:
        self.beat()

    def beat(self) -> None:
        """Record that the thread makes progress."""
        self.at = time.monotonic()


class Inotify:
    """Notifications from a real file system, for the roots that exist, and for the inbox.

    `pulse` belongs to the thread that watches, None if there is none.
    """

    def __init__(
        self, inbox: Path, step_ms: int, debounce_ms: int, limit_share: float, plan_period: float
    ) -> None:
        self.inbox = str(inbox)
        self.use(step_ms, debounce_ms, limit_share, plan_period)
        self.directories = WatchedDirectories()
        """What is watched in addition to the roots."""
        self._limiter = anyio.CapacityLimiter(2)
        self.pulse: Pulse | None = None
        self._refused_until = 0.0
        self._refused = ""
        self._fits = True
        """Whether all roots were watched to the bottom when the watch was set up last."""

    def use(self, step_ms: int, debounce_ms: int, limit_share: float, plan_period: float) -> None:
        """Go by these settings from the next wait, and from the next time that the watch is set up."""
        self.step = step_ms
        self.debounce = debounce_ms
        self._limit_share = limit_share
        self._plan_period = plan_period

    async def watch(
        self,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None:
        """Watch until cancelled. `standing` is called once the watch is set up.

        Raises `CannotWatch` if not even the roots themselves can be watched.
        """
        watch = _Watch(self, roots, standing, hint, inbox)
        self.pulse = watch.pulse
        try:
            # The thread may be inside the kernel for a while. It is left behind and told to stop; a new watch
            # need not wait for it. Its limiter is its own, so that it never takes a thread from others.
            await anyio.to_thread.run_sync(watch.run, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            watch.stop.set()
            self.pulse = None

    def seen(self) -> float | None:
        """When the watching thread last showed progress (monotonic clock); None if there is none."""
        return self.pulse.at if self.pulse is not None else None

    def set_up(self, roots: Sequence[WatchedRoot], pulse: Pulse) -> tuple[Directories, Watching, float]:
        """Set up the watch: every root that the limit allows to the bottom, the others flat."""
        began = time.monotonic()
        directories = self._all_deep(roots, pulse) if self._fits else None
        if directories is not None:
            return directories, Watching(len(directories), ()), began
        plan, _ = self.plan(roots, pulse)
        try:
            directories = self._watched(plan, pulse)
        except CannotWatch as error:
            # The limit was reached after all, or directories came and went: flat is better than nothing.
            pause = REFUSED_PAUSE if error.for_long else self._plan_period
            self._refused_until = time.monotonic() + pause
            self._refused = f"{error}; {error.fix}"
            # Planned again: now every root counts as refused, so each is watched flat.
            plan, _ = self.plan(roots, pulse)
            directories = self._watched(plan, pulse)
        self._fits = not plan.flat
        watching = Watching(plan.watches + len(self._beside(plan)), plan.flat_names, plan.why)
        return directories, watching, self._next_plan(began, watching)

    def _all_deep(self, roots: Sequence[WatchedRoot], pulse: Pulse) -> Directories | None:
        """All roots watched to the bottom; None if that is more than may be watched.

        Counting the directories first would walk them twice, and most daemons may watch all they have.
        """
        if time.monotonic() < self._refused_until:
            return None
        try:
            return self._watched(Plan(tuple(roots), (), 0), pulse)
        except CannotWatch:
            return None

    def _watched(self, plan: "Plan", pulse: Pulse) -> Directories:
        deep = [root.path for root in plan.deep if not root.is_shallow]
        flat = [root.path for root in (*plan.deep, *plan.flat) if root.path not in deep]
        limit, name = watch_limit() or OLDEST_LIMIT
        try:
            beside = self._beside(plan)
            # The limit is the user's, for all programs together. We take a share, but never less than the
            # flat watches need.
            most = max(int(limit * self._limit_share), 1 + len(flat) + len(beside))
            return Directories(deep, [self.inbox, *flat, *beside], most, pulse.beat)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise CannotWatch(error.strerror or str(error)) from error
            why = f"all programs of this user together can watch at most {limit} directories"
            raise CannotWatch(why, f"raise it by {_more(name, limit)}", for_long=True) from error

    def _beside(self, plan: "Plan") -> list[str]:
        """The additional directories that no root already watches to the bottom."""
        deep = [os.path.realpath(root.path) for root in plan.deep if not root.is_shallow]
        return sorted(
            each
            for each in self.directories.paths
            if not any(f"{os.path.realpath(each)}/".startswith(f"{root}/") for root in deep)
        )

    def plan(self, roots: Sequence[WatchedRoot], pulse: Pulse) -> tuple["Plan", float]:
        """How to watch what, and when to reconsider: planning never takes more than 1 % of a core."""
        began = time.monotonic()
        limit, name = watch_limit() or OLDEST_LIMIT
        fix = f"raise it by {_more(name, limit)}"
        flat: dict[str, str] = {}
        if began < self._refused_until:
            flat = dict.fromkeys((root.name for root in roots), self._refused)
        allowed = int(limit * self._limit_share) - len(self.directories.paths)
        plan = plan_watches(roots, allowed, fix, pulse.beat, flat)
        return plan, self._next_plan(began, Watching(0, plan.flat_names))

    def _next_plan(self, began: float, watching: Watching) -> float:
        now = time.monotonic()
        factor = FLAT_COST_FACTOR if watching.flat else COST_FACTOR
        return now + max(self._plan_period, factor * (now - began))


class _Watch:
    """One watch in its thread, from its setup until it is asked to stop."""

    def __init__(
        self,
        inotify: Inotify,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None:
        self.stop = threading.Event()
        self.pulse = Pulse()
        self._inotify = inotify
        self._roots = roots
        self._translate = Translator(inotify.inbox, roots)
        self._standing = standing
        self._hint = hint
        self._inbox = inbox

    def run(self) -> None:
        there = [root for root in self._roots if os.path.isdir(root.path)]
        lost: str | None = None
        while not self.stop.is_set():
            directories, watching, next_plan = self._inotify.set_up(there, self.pulse)
            try:
                # Reported only when the watch stands. The scan that follows it then overlaps with the watch,
                # and no change falls in between.
                anyio.from_thread.run_sync(self._standing, replace(watching, lost=lost))
                lost = self._watch(directories, watching, next_plan, there)
            finally:
                directories.close()

    def _watch(
        self, directories: Directories, watching: Watching, next_plan: float, there: Sequence[WatchedRoot]
    ) -> str | None:
        """Wait for changes until the watch must be set up again; returns why it was lost, if it was."""
        while not self.stop.is_set():
            try:
                self._wait(directories)
            except Overflow as error:
                return str(error)
            # A new directory got no watch. The roots are planned anew, and some become flat.
            if directories.lacks:
                break
            # Counting directories is itself expensive, so it is done rarely, and only where roots are watched flat: while
            # all are watched to the bottom, each new directory gets its watch, or it is lacking.
            if not watching.flat or time.monotonic() < next_plan:
                continue
            plan, next_plan = self._inotify.plan(there, self.pulse)
            if plan.flat_names != watching.flat:
                break
        return None

    def _wait(self, directories: Directories) -> None:
        """Wait for changes and pass them on."""
        # The watchdog reads this: a thread that hangs in the kernel stops beating.
        self.pulse.beat()
        step, debounce = self._inotify.step / 1000, self._inotify.debounce / 1000
        changes = directories.wait(TIMEOUT_MS / 1000, step, max(step, debounce), self.stop)
        if not changes or self.stop.is_set():
            return
        beside = self._inotify.directories
        if beside.paths and any(
            path in beside.paths or os.path.dirname(path) in beside.paths for path in changes
        ):
            anyio.from_thread.run_sync(beside.changed)
        targets, in_inbox = self._translate(changes)
        if targets:
            anyio.from_thread.run_sync(self._hint, targets)
        if in_inbox:
            anyio.from_thread.run_sync(self._inbox)


class CannotWatch(Exception):
    """The system refuses to watch at all: out of inotify instances, or out of watches. `fix` says what helps."""

    def __init__(
        self, why: str, fix: str = "raise fs.inotify.max_user_instances", for_long: bool = False
    ) -> None:
        super().__init__(why)
        self.fix = fix
        self.for_long = for_long


class Translator:
    """Translates changed paths into the places that changed, and says whether the inbox changed."""

    def __init__(self, inbox: str, roots: Sequence[WatchedRoot]) -> None:
        self._inbox = inbox + "/"
        self._prefixes = [(root.path + "/", root) for root in roots]
        self._held: dict[str, _Held] = {}

    def __call__(self, paths: Iterable[str]) -> tuple[list[Target], bool]:
        in_inbox = False
        targets: dict[Target, None] = {}
        held: dict[str, frozenset[str]] = {}
        for path in paths:
            for prefix, root in self._prefixes:
                if path.startswith(prefix):
                    place = self._place(root, path[len(prefix) :], held)
                    if place is not None and not root.ignores(place):
                        targets[root.name, place] = None
                    break
            else:
                in_inbox = in_inbox or path.startswith(self._inbox)
        return [target for target in targets if _may_be_a_place(target[1])], in_inbox

    def _place(self, root: WatchedRoot, path: str, held: dict[str, frozenset[str]]) -> str | None:
        """The place that a changed path (relative to the root) belongs to, if any.

        `held` are the directories that contain places, by root, as looked up for this batch's changes.
        """
        if root.shape is None:
            directory, _, rest = path.partition("/")
            # In a known run directory, names that can't indicate a start or an end are ignored: a log grows
            # all the time.
            return None if rest and is_untelling(rest) and directory in root.seen else directory
        place = root.shape.place_of(path)
        if place is not None:
            return place
        if isinstance(root.shape, DatabaseShape):
            return ITSELF if root.shape.holds_all(path) else None
        # It may be a directory that appeared, maybe not empty, or one that vanished with places in it.
        whole = f"{root.path}/{path}"
        if os.path.isdir(whole) and not os.path.islink(whole):
            return ITSELF
        if root.name not in held:
            held[root.name] = self._held.setdefault(root.name, _Held()).directories(root)
        return ITSELF if path in held[root.name] else None


def _may_be_a_place(name: str) -> bool:
    """Names that begin with a dot are ignored; those that are not UTF-8 are left to the scan."""
    return not name.startswith(".") and is_text(name)


class _Held:
    """The directories in which places of a root were seen, collected again only when the known places have changed."""

    def __init__(self) -> None:
        self._known: tuple[int, str] = (0, "")
        self._directories: frozenset[str] = frozenset()

    def directories(self, root: WatchedRoot) -> frozenset[str]:
        places = list(root.seen)
        # Comparing all places for each change would cost more than the change. A new place is the last one.
        known = (len(places), places[-1]) if places else (0, "")
        if known != self._known:
            self._known = known
            paths: set[str] = set(places)
            for place in places:
                above = place.rpartition("/")[0]
                while above and above not in paths:
                    paths.add(above)
                    above = above.rpartition("/")[0]
            self._directories = frozenset(paths)
        return self._directories


@dataclass(frozen=True, slots=True)
class Plan:
    """Which roots are watched to the bottom, which only flat, and how many watches that takes."""

    deep: tuple[WatchedRoot, ...]
    flat: tuple[WatchedRoot, ...]
    watches: int
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def flat_names(self) -> tuple[str, ...]:
        return tuple(root.name for root in self.flat)


def plan_watches(
    roots: Sequence[WatchedRoot],
    allowed: int,
    fix: str = "",
    beat: Callable[[], None] = lambda: None,
    flat: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Plan the watches within `allowed`.

    `beat` is called for every directory that is looked into. `flat` names roots that must be watched flat, and why.
    """
    deep: list[WatchedRoot] = []
    why = {root.name: flat[root.name] for root in roots if root.name in flat}
    watches = 1 + len(why)
    for root in roots:
        if root.name in why:
            continue
        left = allowed - watches
        needed = 1 if root.is_shallow else _directories(root.path, left, beat)
        if needed > left:
            why[root.name] = f"it has more directories than the {max(0, left)} that may be watched; {fix}"
            watches += 1
        else:
            deep.append(root)
            watches += needed
    return Plan(tuple(deep), tuple(root for root in roots if root.name in why), watches, why)


def watch_limit() -> tuple[int, str] | None:
    """How many directories all programs of this user may watch, and the kernel setting that says so."""
    limits = []
    for name, path in LIMITS.items():
        try:
            limits.append((int(path.read_text()), name))
        except (OSError, ValueError):
            continue
    return min(limits, default=None)


def _more(name: str, limit: int) -> str:
    return f"`sysctl -w {name}={max(4 * limit, 8192)}`"


def _directories(path: str, most: int, beat: Callable[[], None]) -> int:
    """How many directories there are from `path` down; counting stops above `most`, and no link is followed."""
    count, waiting = 1, [path]
    # Counting stops above the limit: more is not needed, and a giant tree would take minutes.
    while waiting and count <= most:
        beat()
        try:
            with os.scandir(waiting.pop()) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # gone or forbidden: nothing to watch there
        waiting += below
        count += len(below)
    return count
