"""Whether the directory at a root's path is the root, or another one in its place.

A root is known by device and inode. If its file system is not mounted, its empty mount point is there instead. But a
root may be recreated or restored, and device numbers may change at a boot. So another directory is accepted as the root
if that can do no harm, or if it contains the known runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.ports.files import Files, Sight
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cursors, roots
from runward.daemon.store.tables.cursors import OpenCursor
from runward.daemon.store.transaction import Statement
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.layouts import native
from runward.handlers.layouts.scanner import Started
from runward.handlers.sessions.observe import read_watched

MOST_KNOWN: Final = 256
"""The number of finished runs by which a root may be recognised."""


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
        found = root.stands.identity
        recorded = (await roots.identities(self.store)).get(root.name)
        if found != recorded:
            # A root with no recorded identity, or one recorded for an earlier path in the settings, is accepted.
            if recorded is not None and not await self._may_be(root, found, recorded):
                return False
            await self.store.run([Statement(roots.IS.sql, [(found, root.name)])], "roots")
        root.identity = found
        return True

    async def _may_be(self, root: WatchedRoot, found: str, recorded: str) -> bool:
        known = await cursors.known_in_root(self.store, root.name, MOST_KNOWN)
        if not known:
            return True  # nothing known contradicts it
        open_here = [each for each in await cursors.open_cursors(self.store) if each.root == root.name]
        is_settled = not open_here and not await cursors.owes_of_root(self.store, root.name)
        if is_settled and _device(found) == _device(recorded):
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
