"""What the daemon keeps watching: the roots, and the processes of running sessions."""

import os
import select
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final

import anyio

from runward.daemon.log import Log
from runward.daemon.watch.hints import ITSELF, Coverage, Hints, Target, Why
from runward.daemon.watch.notifications import CannotWatch, Notifications, Watching
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import Rounds
from runward.daemon.world.processes import Processes
from runward.handlers.model.processes import RecordedProcess

RETRY: Final = 30.0
"""Seconds after which a failed watch is tried again."""


@dataclass(slots=True)
class WatchKeeping:
    """One task that keeps the watch. `roots` is by name; `stands` is set once the first watch is up, or can't be."""

    notifications: Notifications
    roots: dict[str, WatchedRoot]
    rounds: Rounds
    hints: Hints
    coverage: Coverage
    log: Log
    stands: anyio.Event = field(default_factory=anyio.Event)
    _again: anyio.Event = field(default_factory=anyio.Event)

    def watch_again(self) -> None:
        """The roots have changed."""
        self._again.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            # Made before the watch is set up: roots that change meanwhile must end this watch, too.
            self._again = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                await self._again.wait()
                tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        roots = [root for root in self.roots.values() if not root.is_replaced]
        while True:
            try:
                await self.notifications.watch(roots, self._standing, self._hint, self.rounds.look_in_inbox)
            except CannotWatch as error:
                self.log.error("watch.failed", why=str(error), fix=error.fix)
                names = tuple(root.name for root in roots)
                why = dict.fromkeys(names, f"{error}; {error.fix}")
                self._standing(Watching(0, names, why, unwatched=names))
            await anyio.sleep(RETRY)

    def _standing(self, watching: Watching) -> None:
        self.coverage.watched, self.coverage.flat = watching.watched, len(watching.flat)
        # What happened between the loss and the new watch is known to nobody, so a scan must find it.
        if watching.lost is not None:
            self.coverage.overflows += 1
            self.log.warning("watch.lost", why=watching.lost)
        if watching.flat and watching.flat != tuple(self.rounds.flat):
            self.log.warning("watch.flat", roots=watching.flat, why=watching.why)
        self.rounds.flat = {name: watching.why.get(name, "") for name in watching.flat}
        self.rounds.unwatched = frozenset(watching.unwatched)
        self.rounds.is_inbox_watched = watching.watched > 0
        if self.stands.is_set():
            # A scan finds whatever happened while there was no watch.
            self.rounds.request_scan()
        self.stands.set()

    def _hint(self, targets: list[Target]) -> None:
        # A directory that appeared may have been filled before it was watched. The scan finds what is in it.
        doubtful = [target for target in targets if target[1] == ITSELF]
        if doubtful:
            self.rounds.doubt(name for name, _ in doubtful)
            targets = [target for target in targets if target[1] != ITSELF]
        self.hints.add(targets, Why.WATCH)


MOST: Final = 256
"""Sessions whose processes are watched at once, each process by a descriptor; the rounds check the others."""


@dataclass(slots=True)
class Exits:
    """The processes of running sessions whose ends are awaited, by one task for all of them.

    A descriptor of the process itself (pidfd) becomes readable when it ends, and costs nothing until then. The rounds also
    check, for not all can be watched.
    """

    processes: Processes
    hints: Hints
    _waiting: dict[Target, tuple[tuple[RecordedProcess, ...], set[int]]] = field(default_factory=dict)
    """By session: its processes, and the descriptors of those that have not ended."""
    _targets: dict[int, Target] = field(default_factory=dict)
    """The session of each descriptor."""
    # A task for each session would cost a launched run more than its wait, and, cancelled, leave a cycle of objects.
    _ends: "select.epoll | None" = None

    async def run(self) -> None:
        """Wait until cancelled."""
        with closing(select.epoll()) as ends:
            self._ends = ends
            try:
                while True:
                    await anyio.wait_readable(ends.fileno())
                    self._note_ends(ends)
            finally:
                self._ends = None
                for target in list(self._waiting):
                    self.forget(target)

    def _note_ends(self, ends: "select.epoll") -> None:
        for descriptor, _ in ends.poll(0):
            target = self._targets[descriptor]
            self._waiting[target][1].discard(descriptor)
            self._close(descriptor)
            self.hints.add([target], Why.PROCESS)

    def watch(self, target: Target, processes: tuple[RecordedProcess, ...]) -> None:
        """The session at this place runs, with these processes: when one of them ends, request a look at it."""
        known = self._waiting.get(target)
        if known is not None:
            # The common case: one wait stands for all looks at the same process.
            if known[0] == processes:
                return
            self.forget(target)
        # Descriptors are bounded. The rounds check every recorded process, so nothing is lost without one.
        if self._ends is None or not processes or len(self._waiting) >= MOST:
            return
        opened = [self.processes.descriptor(each) for each in processes]
        descriptors = {each for each in opened if each is not None}
        if descriptors:
            self._waiting[target] = (processes, descriptors)
            self._targets |= dict.fromkeys(descriptors, target)
            for each in descriptors:
                # The kernel bounds what a user may wait for, too.
                with suppress(OSError):
                    self._ends.register(each, select.EPOLLIN)

    def forget(self, target: Target) -> None:
        """The session at this place no longer runs."""
        known = self._waiting.pop(target, None)
        if known is not None:
            for each in known[1]:
                self._close(each)

    def _close(self, descriptor: int) -> None:
        del self._targets[descriptor]
        if self._ends is not None:
            # To close it is not enough: a process that is just being forked holds it, too, until it executes its program.
            with suppress(OSError):  # it could not be registered
                self._ends.unregister(descriptor)
        os.close(descriptor)
