"""The roots of the settings, with what this daemon and earlier ones know about them."""

from dataclasses import dataclass

from runward.config.settings import Root, Settings
from runward.config.settings_keys import AUTO
from runward.daemon.looking.following import written_by
from runward.daemon.looking.look import recorded
from runward.daemon.looking.remembered import read_remembered
from runward.daemon.ports.clock import Clock
from runward.daemon.rundir.run_directories import mark
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cursors, places, roots
from runward.daemon.store.transaction import Statement
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.layouts import native
from runward.handlers.layouts.places import Shape, mixed_shape, shape_of
from runward.handlers.layouts.registry import LAYOUTS
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
        await self.store.run([Statement(roots.SEEN, rows)], "roots")
        first_seen = await roots.first_seen(self.store)
        grown_elsewhere = await roots.grown_elsewhere(self.store)
        open_cursors = await cursors.open_cursors(self.store)
        wanted = {root.name: await self._as_wanted(root, first_seen[root.name]) for root in settings.roots}
        for name, root in wanted.items():
            root.grew_elsewhere = name in grown_elsewhere
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
        read = await places.read(self.store, root.name)
        made.seen = {place: mark(signature) for place, signature in read}
        return made


def _shape(layout: str) -> Shape:
    """Where the sessions in a foreign root are."""
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
        root.doubted.add(place)
