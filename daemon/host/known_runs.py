"""Finished runs whose documents have not changed since their last look: they need no look.

A look at each would find nothing new. So their documents are compared with the store's cursors in bulk: for all runs
after a start, later for those whose directories changed.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.ports.files import Files
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cursors
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.layouts import native
from runward.handlers.model.sessions import Signature
from runward.handlers.sessions.observe import read_watched

SLICE: Final = 2_000
"""Run directories that are queried at once: this many cursors are in memory."""


@dataclass(slots=True)
class KnownRuns:
    """Compares what earlier looks found in runs with their current state."""

    store: Store
    files: Files

    async def unchanged(self, root: WatchedRoot, names: Sequence[str]) -> frozenset[str]:
        """Those of these run directories that are over and unchanged; fewer if the store is in trouble."""
        found: set[str] = set()
        for start in range(0, len(names), SLICE):
            keys = {f"{root.name}/{name}": name for name in names[start : start + SLICE]}
            try:
                states = await cursors.remembered(self.store, keys)
            except sqlite3.Error:
                break  # the worker meets the same trouble, and reports it
            found |= await in_thread(
                self._unchanged, root.path, {keys[key]: state for key, state in states.items()}
            )
        return frozenset(found)

    def _unchanged(self, root: str, states: Mapping[str, str]) -> frozenset[str]:
        known = {name: documents for name, state in states.items() if (documents := _when_over(state))}
        return self.files.unchanged(root, native.DOCUMENTS, known)


def _when_over(state: str) -> dict[str, Signature] | None:
    """The documents of a run that is over and has no complaints that a look would repeat."""
    watched = read_watched(state)
    if watched is None or watched.phase != "over" or watched.complaints:
        return None
    return dict(watched.signatures)
