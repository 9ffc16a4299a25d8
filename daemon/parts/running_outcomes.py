"""Outcomes of running sessions: a look at such a run compares its outcome files with what was reported.

Each session is compared at most once a second, and once more after a change: a file may arrive unnoticed in a new
directory. Nothing is read here; a change becomes an event of the session.
"""

import math
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.part import Part
from runward.daemon.store.tables import sessions
from runward.daemon.watch.hints import Target
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.files import Files
from runward.handlers.layouts import native
from runward.handlers.model.outcomes import OutcomesChanged

APART: Final = 1.0
"""Seconds between two comparisons of one session at least."""

AT_ONCE: Final = 64
"""Sessions that are compared in one go."""

MOST_TOLD: Final = 1000
"""Changes of one session that are reported: each costs the store an event. The verdict reads whatever is there."""


@dataclass(slots=True)
class _Known:
    """What is known about a run: the reported digest, when it was compared (monotonic clock), and how often reported."""

    digest: str | None = None
    compared: float = -math.inf
    reported: int = 0


@dataclass(slots=True)
class RunningOutcomes(Part):
    """Reports changes. `roots` is by name."""

    files: Files
    roots: Mapping[str, WatchedRoot]
    tell: Callable[[OutcomesChanged], None]
    _known: dict[Target, _Known] = field(default_factory=dict)
    _due: dict[Target, float] = field(default_factory=dict)
    """When those are compared that may have changed, by the monotonic clock."""

    is_owed: ClassVar[bool] = False

    def look(self, target: Target) -> None:
        """A running session was looked at because something in it changed."""
        root = self.roots.get(target[0])
        if root is None or root.shape is not None:
            return
        known = self._known.setdefault(target, _Known())
        if target not in self._due and known.reported < MOST_TOLD:
            self._due[target] = max(self.clock.monotonic(), known.compared + APART)
            self.wake()

    def forget(self, target: Target) -> None:
        """A run is over."""
        self._known.pop(target, None)
        self._due.pop(target, None)

    def pause(self) -> float | None:
        return max(0.0, min(self._due.values()) - self.clock.monotonic()) if self._due else None

    async def carry_out(self) -> bool:
        """Compare the next of those that are due."""
        now = self.clock.monotonic()
        due = list(islice((target for target, at in self._due.items() if at <= now), AT_ONCE))
        if not due:
            return False
        # Before the thread compares: what changes behind it is compared once more.
        for target in due:
            del self._due[target]
            self._known[target].compared = now
        paths = {
            target: f"{self.roots[target[0]].path}/{target[1]}" for target in due if target[0] in self.roots
        }
        digests = await in_thread(
            lambda: {target: self.files.outcomes_digest(path) for target, path in paths.items()}
        )
        changed = {
            target: digest
            for target, digest in digests.items()
            if digest is not None and self._is_news(target, digest)
        }
        if changed:
            await self._tell_of(changed, now)
        return True

    def _is_news(self, target: Target, digest: str) -> bool:
        known = self._known.get(target)
        return known is not None and known.digest != digest and known.reported < MOST_TOLD

    async def _tell_of(self, changed: Mapping[Target, str], now: float) -> None:
        keys = {native.session_key(*target): target for target in changed}
        # Once more a second later: a file that arrives in a directory that is new, too, may go unnoticed.
        for target in changed:
            self._due[target] = now + APART
        try:
            running = await sessions.known(self.store, keys)
        except sqlite3.Error as error:
            self.log.warning("outcomes.not_compared", why=str(error))
            return
        for key, session in running.items():
            known = self._known.get(keys[key])
            if known is None or session.status != "running":
                continue
            known.digest, known.reported = changed[keys[key]], known.reported + 1
            self.tell(OutcomesChanged(key, session.attempt, self.clock.now(), known.digest))
