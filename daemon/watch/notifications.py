"""Notifications from inotify, by one watcher over all roots: hints, and never the truth.

The watcher lives in a thread of its own, because setting it up walks every directory and waiting
in it blocks. It filters nothing but Runward's own and the agents' growing files in directories
that are known already.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.from_thread
import anyio.to_thread
from watchfiles import Change
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from runward.daemon.watch.hints import ITSELF, Target
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.layouts.native import is_untelling

TIMEOUT_MS: Final = 5000
"""How long the watcher waits at most before it looks at its stop flag; waking costs idle time."""

COST_FACTOR: Final = 100.0
"""The plan is looked through again after at least this many times its cost."""

QUIET_STEP_MS: Final = 20
"""The step after a wait in which nothing happened: the first change may be seen this much later."""

RENEWED_AFTER: Final = 30_000
"""Names that may be deleted before the watcher is made anew: it keeps a little of every directory."""

WATCH_LIMIT: Final = Path("/proc/sys/fs/inotify/max_user_watches")


@dataclass(frozen=True, slots=True)
class Watching:
    """How the roots are watched now: how many watches stand, and which roots only flat."""

    watched: int
    flat: tuple[str, ...]


class Notifications(Protocol):
    """Where hints come from; a simulation has its own."""

    async def watch(
        self,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None: ...


class Inotify:
    """Notifications of a real file system, for the roots that are there, and for the inbox."""

    def __init__(
        self, inbox: Path, step_ms: int, debounce_ms: int, limit_share: float, plan_period: float
    ) -> None:
        self.inbox = str(inbox)
        self.step = step_ms
        self.debounce = debounce_ms
        self._limit_share = limit_share
        self._plan_period = plan_period
        self._limiter = anyio.CapacityLimiter(2)

    async def watch(
        self,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None:
        """Watch until cancelled. `standing` is called once the watch stands.

        Raises `CannotWatch` where not even the roots themselves can be watched.
        """
        watch = _Watch(self, roots, standing, hint, inbox)
        try:
            await anyio.to_thread.run_sync(watch.run, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            watch.stop.set()

    def set_up(self, roots: Sequence[WatchedRoot]) -> tuple[list[RustNotify], Watching, float]:
        """The watchers: one to the bottom of every root that can afford it, one flat for the others."""
        plan, next_plan = self.plan(roots)
        try:
            deep = RustNotify([*(root.path for root in plan.deep), self.inbox], False, False, 0, True, True)
        except (OSError, WatchfilesRustInternalError):
            # The limit was reached after all, or directories came and went: flat is better than nothing.
            plan = Plan((), tuple(roots), len(roots) + 1)
            deep = _flat([self.inbox])
        flat = [_flat([root.path for root in plan.flat])] if plan.flat else []
        watching = Watching(plan.watches, tuple(root.name for root in plan.flat))
        return [deep, *flat], watching, next_plan

    def plan(self, roots: Sequence[WatchedRoot]) -> tuple["Plan", float]:
        """What to watch how, and when to think of it again: it never takes more than 1 % of a core."""
        began = time.monotonic()
        plan = plan_watches(roots, int(_watch_limit() * self._limit_share))
        now = time.monotonic()
        return plan, now + max(self._plan_period, COST_FACTOR * (now - began))


class _Watch:
    """One watch in its thread, from its setting up until it is told to stop."""

    def __init__(
        self,
        inotify: Inotify,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None:
        self.stop = threading.Event()
        self._inotify = inotify
        self._roots = roots
        self._translate = Translator(inotify.inbox, roots)
        self._standing = standing
        self._hint = hint
        self._inbox = inbox
        self._is_quiet = False
        self._changed = False
        self._deleted = 0

    def run(self) -> None:
        there = [root for root in self._roots if os.path.isdir(root.path)]
        watchers, watching, next_plan = self._inotify.set_up(there)
        anyio.from_thread.run_sync(self._standing, watching)
        while not self.stop.is_set():
            for watcher in watchers:
                # With a second, flat watcher each gets its turn; alone, one waits as long as it likes.
                self._wait(watcher, TIMEOUT_MS if len(watchers) == 1 else 500)
            if not self._may_differ(watching) or time.monotonic() < next_plan:
                continue
            self._changed = False
            plan, next_plan = self._inotify.plan(there)
            if tuple(root.name for root in plan.flat) != watching.flat or self._deleted > RENEWED_AFTER:
                self._deleted = 0
                for watcher in watchers:
                    watcher.close()
                watchers, watching, next_plan = self._inotify.set_up(there)
                anyio.from_thread.run_sync(self._standing, watching)

    def _wait(self, watcher: RustNotify, patience_ms: int) -> None:
        """Wait for changes and pass them on."""
        step = QUIET_STEP_MS if self._is_quiet else self._inotify.step
        changes = watcher.watch(max(step, self._inotify.debounce), step, patience_ms, self.stop)
        self._is_quiet = isinstance(changes, str)
        if isinstance(changes, str) or self.stop.is_set():
            return
        self._changed = True
        self._deleted += sum(change == Change.deleted for change, _ in changes)
        targets, in_inbox = self._translate(path for _, path in changes)
        if targets:
            anyio.from_thread.run_sync(self._hint, targets)
        if in_inbox:
            anyio.from_thread.run_sync(self._inbox)

    def _may_differ(self, watching: Watching) -> bool:
        """Whether another plan than the one that stands may be right.

        Directories become more, and the watcher follows a link that lies in a directory that is moved in. But where
        all is watched to the bottom and nothing changed, the plan is as good as ever.
        """
        return not self.stop.is_set() and (self._changed or bool(watching.flat))


def _flat(paths: list[str]) -> RustNotify:
    try:
        return RustNotify(paths, False, False, 0, False, True)
    except (OSError, WatchfilesRustInternalError) as error:
        raise CannotWatch(str(error)) from error


class CannotWatch(Exception):
    """The system refuses to watch at all: out of inotify instances, or out of watches."""


class Translator:
    """From changed paths to the places whose change they tell of, and whether the inbox changed."""

    def __init__(self, inbox: str, roots: Sequence[WatchedRoot]) -> None:
        self._inbox = inbox + "/"
        self._prefixes = [(root.path + "/", root) for root in roots]

    def __call__(self, paths: Iterable[str]) -> tuple[list[Target], bool]:
        in_inbox = False
        found: dict[Target, None] = {}
        for path in paths:
            for prefix, root in self._prefixes:
                if path.startswith(prefix):
                    place = _place(root, path[len(prefix) :])
                    if place is not None and not (root.ignore and root.ignores(place)):
                        found[root.name, place] = None
                    break
            else:
                in_inbox = in_inbox or path.startswith(self._inbox)
        return [target for target in found if not target[1].startswith(".")], in_inbox


def _place(root: WatchedRoot, path: str) -> str | None:
    """The place whose change a changed path (relative to the root) tells of, if any."""
    if root.shape is not None:
        place = root.shape.place_of(path)
        return ITSELF if place is None and _held_places(root, path) else place
    directory, _, rest = path.partition("/")
    name = rest.partition("/")[0]
    return None if name and is_untelling(name) and directory in root.seen else directory


def _held_places(root: WatchedRoot, path: str) -> bool:
    """Whether a changed path is a directory that came, maybe full, or one that went, with places in it."""
    if os.path.isdir(f"{root.path}/{path}"):
        return True
    return any(place.startswith(f"{path}/") for place in list(root.seen))


@dataclass(frozen=True, slots=True)
class Plan:
    """Which roots are watched to the bottom, which only flat, and how many watches that takes."""

    deep: tuple[WatchedRoot, ...]
    flat: tuple[WatchedRoot, ...]
    watches: int


def plan_watches(roots: Sequence[WatchedRoot], allowed: int) -> Plan:
    """Stay within `allowed` watches, and out of what a link inside a root would drag in."""
    deep: list[WatchedRoot] = []
    flat: list[WatchedRoot] = []
    watches = 1
    for root in roots:
        needed = _directories(root.path, allowed - watches)
        if needed is None:
            flat.append(root)
            watches += 1
        else:
            deep.append(root)
            watches += needed
    return Plan(tuple(deep), tuple(flat), watches)


def _watch_limit() -> int:
    try:
        return int(WATCH_LIMIT.read_text())
    except (OSError, ValueError):
        return 8192  # the kernel's oldest default


def _directories(path: str, most: int) -> int | None:
    """How many directories there are from `path` down; None above `most`, or where a link leads out.

    The watcher follows links to directories, and an agent may have made one to anywhere.
    """
    count, waiting, inside = 1, [path], os.path.realpath(path) + "/"
    while waiting and count <= most:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                        count += 1
                    elif entry.is_symlink() and entry.is_dir() and _leads_out(entry.path, inside):
                        return None
        except OSError:
            continue  # gone or forbidden: nothing to watch there
    return count if count <= most else None


def _leads_out(link: str, inside: str) -> bool:
    return not (os.path.realpath(link) + "/").startswith(inside)
