"""The rounds: the checks that repeat once a second.

A gap in this task's own heartbeat means that the daemon was frozen or suspended and may have lost notifications. Roots
that appear, vanish or are replaced get a new watch and a scan. Recorded processes are checked, and running sessions'
directories are checked for unreported changes; a run that can't be watched is looked at. At longer intervals everything
is scanned.
"""

import math
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import anyio

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.log import Log
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import UNTRUSTED, Listing, Standing, mark, trusted_mark
from runward.daemon.rundir.session_places import all_places
from runward.daemon.store.transaction import CommitUnknown
from runward.daemon.watch.hints import Coverage, Hints, Target, Why
from runward.daemon.watch.look import state_of_documents
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import Clock, until_beat
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Processes
from runward.handlers.model.files import Signature, Unreadable
from runward.handlers.model.processes import RecordedProcess


# The reconciling scan compares what is on disk with what was seen. It is the truth. It runs at the start, after anything
# that may have lost notifications, when a root appears or moves, and at regular intervals. It only lists. Each difference
# becomes a hint, so that a look decides as always.
class Replaced(NamedTuple):
    """Another directory is at the root's path."""


class Beside(NamedTuple):
    """A running native run in whose directory only other names than documents came or went: a look would find nothing.

    It has what its directory was `seen` as before, and its signature now.
    """

    root: WatchedRoot
    directory: str
    seen: int | None
    signature: Signature


def beside_documents(files: Files, root: WatchedRoot, directory: str, signature: Signature) -> Beside | None:
    """What changed in a run directory if no document did. The directory's signature was taken before."""
    known = root.documents.get(directory)
    if known is None or known != state_of_documents(partial(files.signature, root.path, directory)):
        return None
    return Beside(root, directory, root.seen.get(directory), signature)


@dataclass(frozen=True, slots=True)
class Scanned:
    """The result of a scan of one root: its listing, and what to look at."""

    root: WatchedRoot
    listing: Listing | Unreadable | Gone | Replaced
    targets: tuple[Target, ...]
    began_at: float
    beside: tuple["Beside", ...] = ()


def scan(
    files: Files, root: WatchedRoot, everything: bool, now: float, asked: Callable[[str], bool] = all_places
) -> Scanned:
    """Compare a root with what was seen in it; with `everything`, look at all of it again.

    Of foreign sessions, only those that are `asked` about are compared. Whether the others are still there is known all the same.

    Of other tools' sessions only open ones are looked at without a change: what they say is in the file whose signature
    is compared. Runs in a thread. A root that can't be listed says nothing about the runs inside it.
    """
    # Another directory says nothing about this root's runs: to find them "gone" there would end them.
    if root.is_replaced:
        return Scanned(root, Replaced(), (), now)
    if root.shape is None:
        listing = files.list_root(root.path)
    else:
        listing = files.list_places(root.path, root.shape, asked)
    if not isinstance(listing, Listing):
        return Scanned(root, listing, (), now)
    seen = root.seen
    directories = listing.directories
    anew = everything and root.shape is None
    changed = [
        name
        for name, signature in directories.items()
        if (anew or seen.get(name) != mark(signature)) and not root.ignores(name)
    ]
    beside: dict[str, Beside] = {}
    if not anew:
        found = (beside_documents(files, root, name, directories[name]) for name in changed)
        beside = {each.directory: each for each in found if each is not None}
        changed = [name for name in changed if name not in beside]
    if everything and not anew:
        changed += [
            name for name in root.open if name in directories and seen.get(name) == mark(directories[name])
        ]
    there = directories.keys() | listing.left_out if listing.left_out else directories
    missing = [name for name in list(seen) if name not in there]
    # An open session may have no mark, for example after a restart. Its end must be noticed all the same.
    missing += [name for name in list(root.open) if name not in there and name not in seen]
    # A directory that can't be listed now hides its places. They are not gone, so they are not looked at as
    # missing.
    unlisted = tuple(f"{directory}/" for directory in listing.unlisted)
    changed += [name for name in missing if not name.startswith(unlisted)] if unlisted else missing
    return Scanned(root, listing, tuple((root.name, name) for name in changed), now, tuple(beside.values()))


def settle(scanned: Scanned) -> str | None:
    """Record what the scan says about its root; returns the complaint if it is new."""
    root, before = scanned.root, scanned.root.problem
    match scanned.listing:
        case Listing(unusable=unusable, native=native, problems=problems):
            told = "; ".join(problems) or None
            root.health, root.problem = "ok", told or _unusable(unusable) or _not_followed(native)
            root.listed_at = scanned.began_at
        case Gone():
            root.health, root.problem = "missing", "the directory is not there"
        case Replaced():
            root.health, root.problem = (
                "replaced",
                (
                    "this is not the directory that its runs are in, so nothing in it is judged;"
                    f" mount it or move it back, or `runward root accept {root.name}` to continue with this one"
                ),
            )
        case Unreadable(why=why):
            root.health, root.problem = "unreadable", f"it can't be read: {why}"
    return root.problem if root.problem != before else None


def _not_followed(native: Sequence[str]) -> str | None:
    if not native:
        return None
    return f"{len(native)} native runs, such as {native[0]!r}, are not followed here: give them a root of their own"


def _unusable(names: Sequence[str]) -> str | None:
    if not names:
        return None
    return f"{len(names)} directories have names that are not UTF-8, such as {names[0]!r}: rename them"


BEAT: Final = 1.0
"""Seconds between heartbeats."""

SHORTEST_BEAT: Final = 0.1
"""Seconds after which the next beat may come, if something must be looked at again."""

LONGEST_BEAT: Final = 2.0
"""A heartbeat that is later than this counts as an overflow."""

ASKED: Final = 50
"""Running sessions whose directories are checked for changes in a beat; each gets its turn.

What the watch loses in a new directory, or behind an agent that moves its directories about, is found soon that way.
"""

FLAT_ASKED: Final = 500
"""The same where a root is watched flat: there nothing else reports them."""

FLAT_LOOKED: Final = 20
"""Running sessions of such roots that are looked into in each beat, for not every change shows in their directory."""

WRITERS_ASKED: Final = 250
"""Running foreign sessions that are looked at in each period, because nothing reports who writes them."""

PROCESS_PERIOD: Final = 5.0
"""Seconds between looks at the recorded processes of running sessions."""

COST_FACTOR: Final = 100.0
"""A scan is followed by at least this many times its cost without one: 1 % of a core."""

FLAT_COST_FACTOR: Final = 400.0
"""The same for a root that is watched flat. That itself has a cost; all of it stays below 1 % of a core."""

RESTING_SCANS: Final = 10
"""In one of so many periodic scans, a foreign session is compared that is over, and whose every change the watch reports."""

CLOCK_STEP: Final = 1.0
"""Seconds by which wall time and monotonic time must drift apart in a beat to count as a step."""


def _in_turn(targets: list[Target], position: int, most: int) -> tuple[list[Target], int]:
    """The next of these from a position on, at most so many, and the position after them; behind the last comes the first."""
    # The list changes between turns, so the position may be behind its end.
    start = position % len(targets) if targets else position
    asked = [*targets[start:], *targets[:start]][:most]
    return asked, start + len(asked)


Unchanged: TypeAlias = Callable[[WatchedRoot, Sequence[str]], Awaitable[frozenset[str]]]
"""Returns which of these places of a root are unchanged, so that another look would find nothing new."""


async def nothing_known(root: WatchedRoot, names: Sequence[str]) -> frozenset[str]:
    """For a daemon that remembers no looks."""
    return frozenset()


Accept: TypeAlias = Callable[[WatchedRoot], Awaitable[bool]]
"""Accepts the directory at a root's path as the root, if that is safe."""


async def always_accept(root: WatchedRoot) -> bool:
    """For a daemon that remembers no roots."""
    root.identity = root.stands.identity if root.stands is not None else None
    return True


@dataclass(slots=True)
class Rounds:
    """One task that keeps the daemon's knowledge current. `roots` is by name."""

    files: Files
    processes: Processes
    clock: Clock
    hints: Hints
    coverage: Coverage
    log: Log
    roots: dict[str, WatchedRoot]
    period: float
    watch_again: Callable[[], None]
    time_leapt: Callable[[], None]
    """Called after a gap or a step of the clock: all waits for a moment have to measure again."""
    look_in_inbox: Callable[[], None]
    unchanged: Unchanged = nothing_known
    changed_beside: Callable[[Target], None] = lambda target: None
    """Told of a running native run whose directory changed, but none of its documents."""
    accept: Accept = always_accept
    flat: dict[str, str] = field(default_factory=dict)
    """The roots that aren't watched to the bottom, and why."""
    unwatched: frozenset[str] = frozenset()
    """Those of them whose root itself is not watched."""
    is_inbox_watched: bool = True
    _asked: int = 0
    _looked: int = 0
    _stood: dict[str, Signature | None] = field(default_factory=dict)
    _written: int = 0
    _doubtful: set[str] = field(default_factory=set)
    _doubtful_at: float = 0.0
    _scan_at: float = 0.0
    _is_requested: bool = True
    _everything: bool = True
    _periodic: int = 0
    _wake: anyio.Event = field(default_factory=anyio.Event)

    def request_scan(self, everything: bool = False) -> None:
        """Request an immediate scan of every root; with `everything`, a look into every run directory."""
        self._scan_at = 0.0
        self._is_requested = True
        self._everything = self._everything or everything
        self._wake.set()

    def doubt(self, names: Iterable[str]) -> None:
        """Directories appeared or vanished in these roots: scan each, as often as the cost allows."""
        self._doubtful.update(names)

    def scan_is_due(self) -> bool:
        """Whether the roots should be scanned now: by request, or because the last scan was long ago."""
        return self.clock.monotonic() >= self._scan_at

    async def run(self) -> None:
        """Keep beating until cancelled."""
        last, wall = self.clock.monotonic(), self.clock.now()
        checked = last
        while True:
            # Made before the work, so that a request during it ends the next wait at once.
            self._wake = anyio.Event()
            now = self.clock.monotonic()
            if self.scan_is_due():
                await self.scan(is_periodic=not self._is_requested)
            if (
                now - checked > PROCESS_PERIOD - BEAT / 2
            ):  # beats are a second apart, sooner or later by a hair
                checked = now
                self.check_writers()
                await self.check_processes()
            elif any(root.doubted for root in self.roots.values()):
                await self.check_processes(doubted=True)
            await self.check()
            await self._look_blindly()
            await self.scan_doubtful()
            self._look_at_flat()
            self.check_due()
            due = self.next_due()
            beat = until_beat(BEAT)
            patience = beat if due is None else min(beat, max(SHORTEST_BEAT, due))
            # Measured right before the wait: only the wait itself may not take longer, the work may.
            last, wall = self.clock.monotonic(), self.clock.now()
            with anyio.move_on_after(patience):
                await self._wake.wait()
            self._note_gap(last, wall)

    def _note_gap(self, last: float, wall: float) -> None:
        passed, wall_passed = self.clock.monotonic() - last, self.clock.now() - wall
        # A frozen or suspended process missed notifications, or the kernel's queue ran over. Only a scan
        # finds what they said.
        is_late, is_stepped = passed > LONGEST_BEAT, abs(passed - wall_passed) > CLOCK_STEP
        if is_late:
            self.coverage.overflows += 1
            self.log.warning("watch.gap", seconds=round(passed, 3), why="frozen or suspended; scanning")
            self.request_scan()
        if is_stepped:
            self.log.warning("clock.stepped", seconds=round(wall_passed - passed, 3))
        # A suspend stops the event loop's own timers, so each wait for a moment would last that much longer.
        if is_late or is_stepped:
            self.time_leapt()

    async def scan(self, *, is_periodic: bool = False) -> int:
        """Scan every root; returns how many run directories must be looked at. A periodic scan leaves out what rests."""
        self.look_in_inbox()  # like any other, its notifications may have been lost
        # Taken before the scan: a request for everything that comes during it must not be lost.
        everything, self._everything = self._everything, False
        self._is_requested = False
        self._periodic += is_periodic
        self._scan_at = math.inf  # what is requested from here on may concern what was already listed
        started = self.clock.monotonic()
        directories = 0
        for root in list(self.roots.values()):
            asked = self._not_resting(root) if is_periodic else all_places
            scanned = await self._scan(root, everything, asked)
            directories += self._settle(scanned, Why.START if everything else Why.SCAN)
        cost = self.clock.monotonic() - started
        self.coverage.last_scan_at = self.clock.now()
        self.coverage.last_scan_s = cost
        # The pause follows the cost, so scanning never takes more than 1 % of a core, however large the roots
        # are. A request during the scan has set an earlier time, which stands.
        self._scan_at = min(self._scan_at, self.clock.monotonic() + max(self.period, self._factor * cost))
        return directories

    async def scan_doubtful(self) -> None:
        """Scan the roots in which directories appeared or vanished, if the last such scan was long enough ago."""
        if not self._doubtful or self.clock.monotonic() < self._doubtful_at:
            return
        # Taken before the scan: a directory that changes during it makes its root doubtful again.
        names, self._doubtful = self._doubtful, set()
        started = self.clock.monotonic()
        for root in [self.roots[name] for name in sorted(names) if name in self.roots]:
            self._settle(await self._scan(root, False), Why.WATCH)
        now = self.clock.monotonic()
        self._doubtful_at = now + self._factor * (now - started)

    @property
    def _factor(self) -> float:
        return FLAT_COST_FACTOR if self.flat else COST_FACTOR

    def _not_resting(self, root: WatchedRoot) -> Callable[[str], bool]:
        """Which places of a root a periodic scan compares: those of sessions that are over take turns.

        Such a scan finds what notifications should have said. So where nothing is notified, all are compared.
        """
        if root.shape is None or root.name in self.flat or not self.files.is_local(root.path):
            return all_places
        turn = self._periodic % RESTING_SCANS

        def asked(place: str) -> bool:
            is_over = root.seen.get(place, UNTRUSTED) != UNTRUSTED and place not in root.open
            return not is_over or place in root.unread or hash(place) % RESTING_SCANS == turn

        return asked

    async def _scan(
        self, root: WatchedRoot, everything: bool, asked: Callable[[str], bool] = all_places
    ) -> Scanned:
        """What is to be looked at in a root, except looks that would repeat the same result.

        A run directory also changes when a file appears that says nothing, such as our own parts of a finished run.
        """
        # The directory became the root while the daemon ran, so nothing in it was seen yet and no watch is
        # set up there.
        if root.is_replaced and await self._accepted(root):
            everything, asked = True, all_places
            self.watch_again()
        scanned = await in_thread(scan, self.files, root, everything, self.clock.now(), asked)
        if root.shape is not None or not isinstance(scanned.listing, Listing):
            return scanned
        directories = scanned.listing.directories
        # A restart finds every directory changed, since marks are in memory. Most are finished runs, which
        # need no look.
        self._note_beside(scanned.beside, scanned.began_at)
        known = await self.unchanged(root, [name for _, name in scanned.targets if name in directories])
        root.seen.update((name, trusted_mark(directories[name], scanned.began_at)) for name in known)
        return replace(scanned, targets=tuple(each for each in scanned.targets if each[1] not in known))

    def _settle(self, scanned: Scanned, why: int) -> int:
        complaint = settle(scanned)
        if complaint is not None:
            self.log.warning("root.problem", root=scanned.root.name, path=scanned.root.path, why=complaint)
        self._hint(scanned.root, scanned.targets, why)
        return len(scanned.targets)

    def _hint(self, root: WatchedRoot, targets: Sequence[Target], why: int) -> None:
        """Request looks at these places. Transcripts that belong to no running session wait until last."""
        if root.shape is None:
            self.hints.add(targets, why)
            return
        # A running session's end is a verdict. A transcript that nobody writes may wait until nothing else
        # does.
        self.hints.add([each for each in targets if each[1] in root.open], why)
        self.hints.add_to_backlog([each for each in targets if each[1] not in root.open], why)

    async def learn_roots(self) -> None:
        """Find out which directories the roots are now, before the first watch and scan."""
        for root, stands in await self._standing():
            root.stands = stands
            await self._accepted(root)

    async def check(self) -> int:
        """Notice roots that changed; hint at running sessions whose directories changed without a notification.

        Both in one thread: handing over to it costs more than these stats. Returns how many sessions changed.
        """
        roots, asked, now = list(self.roots.values()), self._next_running(), self.clock.now()
        standing, (changed, beside) = await in_thread(lambda: (self._stands(roots), self._changed(asked)))
        # What was compared may have been in another directory than the root.
        without = set(await self._settle_standing(standing))
        changed = [each for each in changed if each[0] not in without]
        self._note_beside([each for each in beside if each.root.name not in without], now)
        self.hints.add(changed, Why.SCAN)
        return len(changed)

    async def check_roots(self) -> None:
        """Notice a root that appeared, vanished, or was replaced by another directory."""
        await self._settle_standing(await self._standing())

    async def _settle_standing(self, standing: Sequence[tuple[WatchedRoot, Standing | None]]) -> list[str]:
        """React to where the roots stand now; returns the names of those that changed."""
        changed = []
        for root, stands in standing:
            if root.stands != stands:
                root.stands = stands
                changed.append(root)
                await self._accepted(root)
        if changed:
            self.log.info("roots.changed", roots=[root.name for root in changed])
            self.watch_again()
        for root in changed:
            self._settle(await self._scan(root, True), Why.SCAN)
        return [root.name for root in changed]

    async def _standing(self) -> list[tuple[WatchedRoot, Standing | None]]:
        return await in_thread(self._stands, list(self.roots.values()))

    def _stands(self, roots: Sequence[WatchedRoot]) -> list[tuple[WatchedRoot, Standing | None]]:
        return [(root, self.files.standing(root.path)) for root in roots]

    async def _accepted(self, root: WatchedRoot) -> bool:
        """Whether the directory at the root's path is accepted as the root; while the store is in trouble, not yet."""
        accepted = not root.is_replaced
        if not accepted:
            try:
                accepted = await self.accept(root)
            except (CommitUnknown, sqlite3.Error) as error:
                self.log.warning("root.not_accepted", root=root.name, why=str(error))
        # Told even where nothing was accepted: what is read or written below a path is refused while another
        # directory is there.
        self.files.know_roots({each.path: each.identity for each in self.roots.values()})
        return accepted

    def _judged(self) -> list[WatchedRoot]:
        """The roots about which something can be said now."""
        return [root for root in self.roots.values() if not root.is_replaced]

    def _next_running(self) -> list[tuple[WatchedRoot, str]]:
        """The running sessions whose turn it is."""
        everyone = ((root, name) for root in self._judged() for name in (*root.open, *root.unsettled))
        most = FLAT_ASKED if self.flat else ASKED
        asked = list(islice(everyone, self._asked, self._asked + most))
        # Some in each beat, in turn: so the cost of a beat is bounded, and each gets looked at.
        self._asked = self._asked + most if len(asked) == most else 0
        return asked

    def _changed(self, asked: list[tuple[WatchedRoot, str]]) -> tuple[list[Target], list[Beside]]:
        changed: list[Target] = []
        beside: list[Beside] = []
        for root, name in asked:
            signature = self._signature(root, name)
            # A foreign session that is missing may have moved. A native run that is missing is left to the scan.
            if (root.shape is None) if signature is None else root.seen.get(name) == mark(signature):
                continue
            only_beside = None if signature is None else beside_documents(self.files, root, name, signature)
            if only_beside is None:
                changed.append((root.name, name))
            else:
                beside.append(only_beside)
        return changed, beside

    def _note_beside(self, beside: Iterable[Beside], now: float) -> None:
        """These directories are seen as they were at `now` (Unix seconds), without a look at each."""
        for root, directory, seen, signature in beside:
            # Looked up again: a look in between knows more, and the run may be over.
            if directory not in root.documents or root.seen.get(directory) != seen:
                continue
            root.seen[directory] = trusted_mark(signature, now)
            if root.seen[directory] != UNTRUSTED:
                root.unsettled.discard(directory)
            self.changed_beside((root.name, directory))

    def _signature(self, root: WatchedRoot, place: str) -> Signature | None:
        if root.shape is None:
            return self.files.directory_signature(root.path, place)
        return self.files.place_signature(root.path, place, root.shape)

    def check_due(self) -> None:
        """Hint at what must be looked at again by now."""
        now = self.clock.monotonic()
        for root in self._judged():
            if root.due:
                due = [(root.name, place) for place, at in root.due.items() if at <= now]
                self.hints.add(due, Why.AGAIN | Why.PROCESS)

    def next_due(self, *, with_judged: bool = True) -> float | None:
        """The seconds until something must be looked at again although nothing changes; None if nothing must.

        Without those of native runs that are judged, and lack a file that may still arrive, unless `with_judged`.
        """
        now = self.clock.monotonic()
        return min(
            (
                at - now
                for root in self._judged()
                for place, at in root.due.items()
                if with_judged or root.shape is not None or place in root.open
            ),
            default=None,
        )

    def check_writers(self) -> None:
        """Hint at some of the running foreign sessions each time: only a look finds out who writes one."""
        everyone = [(root.name, place) for root in self._judged() if root.shape for place in root.open]
        asked, self._written = _in_turn(everyone, self._written, WRITERS_ASKED)
        if asked:
            self.hints.add(asked, Why.PROCESS)

    async def check_processes(self, doubted: bool = False) -> int:
        """Hint at every running session whose recorded processes have ended."""
        asked: list[tuple[Target, tuple[RecordedProcess, ...]]] = []
        for root in self._judged():
            asked += [
                ((root.name, directory), processes)
                for directory, processes in root.open.items()
                if processes and (not doubted or directory in root.doubted)
            ]
        if not asked:
            return 0
        now = self.clock.now()
        gone = await in_thread(self._gone, asked)
        missing = set(gone)
        for name, directory in (target for target, _ in asked if target not in missing):
            if name in self.roots:  # the settings may have changed meanwhile
                self.roots[name].alive_at[directory] = now
        self.hints.add(gone, Why.PROCESS)
        return len(gone)

    def _gone(self, asked: list[tuple[Target, tuple[RecordedProcess, ...]]]) -> list[Target]:
        return [
            target
            for target, processes in asked
            if any(self.processes.state(each) != "alive" for each in processes)
        ]

    def degraded(self) -> list[str]:
        """What is wrong with the roots, for `status`."""
        troubles = [f"root {root.name}: {root.trouble}" for root in self.roots.values() if root.trouble]
        return troubles + [
            f"root {name} is watched flat ({why}): running sessions are looked at in turn, the rest by scans"
            for name, why in sorted(self.flat.items())
        ]

    def _look_at_flat(self) -> None:
        """In each beat, look at some of the running sessions in roots that can't be watched to the bottom."""
        open_ones = [
            (root.name, each) for root in self._judged() if root.name in self.flat for each in root.open
        ]
        asked, self._looked = _in_turn(open_ones, self._looked, FLAT_LOOKED)
        if asked:
            self.hints.add(asked, Why.AGAIN)

    async def _look_blindly(self) -> None:
        """If roots aren't watched at all, check whether a directory appeared in one; the same for the inbox."""
        if not self.is_inbox_watched:
            self.look_in_inbox()
        if not self.unwatched:
            return
        roots = [root for name, root in self.roots.items() if name in self.unwatched]
        stand = await in_thread(
            lambda: {root.name: self.files.directory_signature(root.path, ".") for root in roots}
        )
        self.doubt(name for name, signature in stand.items() if signature != self._stood.get(name))
        self._stood = stand
