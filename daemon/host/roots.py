"""The roots of the settings: what this daemon and earlier ones know about them and their finished runs, and whether the directory at a root's path is still the root."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runward.config.root import AUTO, Root
from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.rundir.run_directories import Sight, mark
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cursors, places
from runward.daemon.store.tables.cursors import OpenCursor
from runward.daemon.store.transaction import Statement
from runward.daemon.watch.following import written_by
from runward.daemon.watch.look import recorded
from runward.daemon.watch.remembered import read_remembered
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.handlers.layouts import native
from runward.handlers.layouts.native import Started
from runward.handlers.layouts.places import Shape, mixed_shape, shape_of
from runward.handlers.model.files import Signature
from runward.handlers.sessions.observe import read_watched


@dataclass(slots=True)
class KnownRoots:
    """Keeps `roots`, by name, as the settings want them; the daemon's other parts hold the same dictionary."""

    store: Store
    clock: Clock
    roots: dict[str, WatchedRoot]

    async def use(self, settings: Settings) -> None:
        """Use these roots, keeping what is known about those that stay. Raises `CommitUnknown` and `sqlite3.Error`."""
        now = self.clock.now()
        rows = [(root.name, root.path, root.layout, now) for root in settings.roots]
        await self.store.run([Statement(places.ROOT_SEEN, rows)], "roots")
        first_seen = await places.first_seen(self.store)
        grown_elsewhere = await places.grown_elsewhere(self.store)
        open_cursors = await cursors.open_cursors(self.store)
        wanted = {root.name: await self._as_wanted(root, first_seen[root.name]) for root in settings.roots}
        for name, root in wanted.items():
            root.grew_elsewhere = name in grown_elsewhere
        # The same dictionary, because the daemon's other parts hold it.
        self.roots.clear()
        self.roots.update(wanted)
        for cursor in open_cursors:
            known = self.roots.get(cursor.root)
            # A root of this name may have had another layout before.
            if known is not None and known.may_hold(cursor.session_key.partition(":")[0]):
                _remember_open(known, cursor.place, cursor.state)

    async def _as_wanted(self, root: Root, first_seen_at: float) -> WatchedRoot:
        known = self.roots.get(root.name)
        if known is None or (known.path, known.layout) != (root.path, root.layout):
            known = await self._new(root)
        known.settings = root
        known.first_seen_at = first_seen_at
        return known

    async def _new(self, root: Root) -> WatchedRoot:
        """A root that this daemon didn't watch before, with what earlier ones read in it."""
        if root.layout == native.LAYOUT:
            return WatchedRoot(root)
        made = WatchedRoot(root, _shape(root.layout))
        read = await places.places_read(self.store, root.name)
        # A restart then looks only at transcripts that are open or changed: a home may have thousands.
        made.seen = {place: mark(signature) for place, signature in read}
        return made


def _shape(layout: str) -> Shape:
    """Where the sessions in a foreign root are."""
    from runward.handlers.layouts.registry import LAYOUTS  # all layouts: only for a root that has one

    return mixed_shape(LAYOUTS) if layout == AUTO else shape_of(LAYOUTS.named(layout))


def _remember_open(root: WatchedRoot, place: str, text: str) -> None:
    """A session was running when the previous daemon ended."""
    if place in root.open:
        return
    if root.shape is not None:
        remembered = read_remembered(text)
        root.open[place] = () if remembered is None else written_by(remembered)
        if remembered is None:
            root.seen.pop(place, None)  # it is read again
        return
    watched = read_watched(text)
    root.open[place] = () if watched is None else recorded(watched)
    if watched is not None and watched.gone_since is not None:
        # Its process was seen gone, and its grace period goes on where the last daemon left it.
        root.doubted.add(place)


MOST_KNOWN: Final = 256
"""The number of finished runs by which a root may be recognised."""


# A root is known by device and inode. If its file system is not mounted, its empty mount point is there
# instead. But a root may be recreated or restored, and device numbers may change at a boot. So another
# directory is accepted as the root if that can do no harm, or if it contains the known runs.
@dataclass(slots=True)
class RootIdentities:
    """Which directory each root is, according to the store."""

    store: Store
    files: Files

    async def accept(self, root: WatchedRoot) -> bool:
        """Accept the directory at the root's path as the root, unless that may be wrong.

        Raises `CommitUnknown` and `sqlite3.Error`.
        """
        assert root.stands is not None
        identity = root.stands.identity
        recorded = (await places.identities(self.store)).get(root.name)
        # The store decides, not this daemon's memory: the directory may have been replaced while no daemon
        # ran.
        if identity != recorded:
            # A root with no recorded identity, or one recorded for an earlier path in the settings, is accepted.
            if recorded is not None and not await self._may_be(root, identity, recorded):
                return False
            await self.store.run([Statement(places.ROOT_IS.sql, [(identity, root.name)])], "roots")
        root.identity = identity
        return True

    async def _may_be(self, root: WatchedRoot, identity: str, recorded: str) -> bool:
        known = await cursors.known_in_root(self.store, root.name, MOST_KNOWN)
        if not known:
            return True  # nothing known contradicts it
        open_here = [each for each in await cursors.open_cursors(self.store) if each.root == root.name]
        is_settled = not open_here and not await cursors.owes_of_root(self.store, root.name)
        if is_settled and _device(identity) == _device(recorded):
            return True  # a person recreated it; on another file system it is more likely a mount point
        return await in_thread(self._shows, root, open_here, known)

    def _shows(self, root: WatchedRoot, open_here: Sequence[OpenCursor], known: Sequence[OpenCursor]) -> bool:
        """Whether every running session is there, unchanged; if none runs, whether any session is."""
        if open_here:
            return all(self._is_there(root, each) for each in open_here)
        return any(self._is_there(root, each) for each in known)

    def _is_there(self, root: WatchedRoot, cursor: OpenCursor) -> bool:
        if root.shape is not None:
            return self.files.place_signature(root.path, cursor.place, root.shape) is not None
        sight = self.files.look(root.path, cursor.place, (native.RUN,), {})
        if not isinstance(sight, Sight):
            return False
        items = native.scan(root.name, f"{root.path}/{cursor.place}", sight.documents)
        watched = read_watched(cursor.state)
        if watched is None:
            return any(isinstance(item, Started) for item in items)
        before = dict(watched.signatures).get(native.RUN)
        if (
            sight.documents
            and before is not None
            and native.dated_digest(sight.documents[0].content, before[2]) == watched.start_digest
        ):
            return True
        return any(isinstance(item, Started) and item.digest == watched.start_digest for item in items)


def _device(identity: str) -> str:
    return identity.partition(":")[0]


SLICE: Final = 2_000
"""Run directories that are queried at once: this many cursors are in memory."""


# A look at each would find nothing new. So their documents are compared with the store's cursors in bulk:
# for all runs after a start, later for those whose directories changed.
@dataclass(slots=True)
class KnownRuns:
    """Compares what earlier looks found in runs with their current state."""

    store: Store
    files: Files

    async def unchanged(self, root: WatchedRoot, names: Sequence[str]) -> frozenset[str]:
        """Those of these run directories that are over and unchanged; fewer if the store is in trouble."""
        unchanged_places: set[str] = set()
        for start in range(0, len(names), SLICE):
            keys = {f"{root.name}/{name}": name for name in names[start : start + SLICE]}
            try:
                states = await cursors.remembered(self.store, keys)
            except sqlite3.Error:
                break  # the worker meets the same trouble, and reports it
            unchanged_places |= await in_thread(
                self._unchanged, root.path, {keys[key]: state for key, state in states.items()}
            )
        return frozenset(unchanged_places)

    def _unchanged(self, root: str, states: Mapping[str, str]) -> frozenset[str]:
        known = {name: documents for name, state in states.items() if (documents := _when_over(state))}
        return self.files.unchanged(root, native.DOCUMENTS, known)


def _when_over(state: str) -> dict[str, Signature] | None:
    """The documents of a run that is over and has no complaints that a look would repeat."""
    watched = read_watched(state)
    if watched is None or watched.phase != "over" or watched.complaints:
        return None
    return dict(watched.signatures)
