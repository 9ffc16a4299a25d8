"""Names that are no UTF-8: one such name in a notification ends a watcher of watchfiles for good.

It is set up anew then. Where that happens again and again, the root that has the name is watched less: its own directory
alone, and if the name is there, not at all. Scans find what nobody tells.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.daemon.watch.roots import WatchedRoot

LATELY: Final = 600.0
"""Seconds for which it is remembered that a watcher ended."""

_MEND: Final = "rename it"


class Met(NamedTuple):
    """What ended watchers over one root: how often lately, when last (monotonic clock), and what was said of it."""

    times: int
    at: float
    why: str

    @property
    def is_flat(self) -> bool:
        """Whether the root is not watched to the bottom any more."""
        return self.times > 1

    @property
    def is_unwatched(self) -> bool:
        """Whether not even its own directory is."""
        return self.times > 2


class Undecodable:
    """What ended watchers lately."""

    def __init__(self) -> None:
        self._met: dict[str | None, Met] = {}

    def meet(self, said: str, roots: Sequence[WatchedRoot], now: float) -> tuple[str | None, Met]:
        """A watcher ended, and said why: over which root (None: that isn't known), and what is remembered of it."""
        path = next((root.path for root in roots if f'"{_escaped(root.path)}/' in said), None)
        before = self._met.get(path)
        times = before.times if before is not None and now - before.at < LATELY else 0
        met = self._met[path] = Met(times + 1, now, f"{said}: {_MEND}")
        return path, met

    def lately(self, path: str, now: float) -> Met | None:
        """What ended watchers over this root, if that isn't long ago."""
        met = self._met.get(path)
        return met if met is not None and now - met.at < LATELY else None


def _escaped(path: str) -> str:
    """A path as watchfiles quotes it."""
    return path.replace("\\", "\\\\").replace('"', '\\"')
