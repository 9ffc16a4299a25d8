"""Upkeep alongside the work: keeping the store's log short, giving memory back when a burst is over, and watching the free space on the state directory's disk.

Below a limit of free space nothing new is accepted, until there is enough again. What is already recorded and due is
still carried out, so a little space must be left. Runs that are not looked at stay
on disk, so nothing is lost. The daemon waits out a completely full disk too (`daemon/engine/turn.py`), only less
cleanly.
"""

import ctypes
import gc
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from runward.daemon.disk.file_systems import Space, limit_of, rounded, space_of
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.log import Log
from runward.daemon.store.store import Checkpointer, Store
from runward.daemon.world.clock import until_beat

PERIOD: Final = 1.0
"""Seconds between checks for work."""

MANY_COMMITS: Final = 10
"""Commits after which memory is given back, once a period passes without a commit: a thousand begun runs are fewer than fifty.
It takes some milliseconds."""

COMMITS_BETWEEN: Final = 2
"""Commits after which a further checkpoint may begin.

SQLite before 3.51.3 may damage a database if a checkpoint that finds nothing to move runs alongside a commit (its
WAL-reset bug). Commits run one at a time. So of two commits counted since the last checkpoint ended, at least one began
after it, and there is something to move.
"""


@dataclass(slots=True)
class Upkeep:
    """One task; it does nothing while nothing is committed."""

    store: Store
    checkpointer: Checkpointer
    give_memory_back: Callable[[], None]
    log: Log
    _seen: int = 0
    _checkpointed: int = 0
    _given_back: int = 0

    async def run(self) -> None:
        """Keep up until cancelled."""
        while True:
            await anyio.sleep(until_beat(PERIOD))
            await self.step()

    async def step(self) -> None:
        """Do what is due."""
        commits = self.store.commits
        # Here and not inside a commit, where SQLite would do it while a verdict waits.
        if commits - self._checkpointed >= COMMITS_BETWEEN and self.checkpointer.is_due():
            await self._checkpoint()
        # Only when the burst is over: in the middle of it the memory is needed again at once.
        if commits == self._seen and commits - self._given_back >= MANY_COMMITS:
            await anyio.to_thread.run_sync(self.give_memory_back)
            self._given_back = commits
        self._seen = commits

    async def _checkpoint(self) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.checkpointer.run)
        except sqlite3.Error as error:
            self.log.warning("store.not_checkpointed", why=str(error))
        self._checkpointed = self.store.commits


# The memory of a burst is freed, but the C library keeps it in fragments between live objects, and the next
# burst finds other fragments. Without this a daemon's memory grows by a few megabytes with every burst of
# ten thousand runs. Values in cycles aren't freed at all until they are collected, and the daemon collects rarely.
def giver_back() -> Callable[[], None]:
    """A function that collects cycles and gives free memory back, the latter with glibc's malloc_trim if there is one."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def give_back() -> None:
        gc.collect()
        if trim is not None:
            trim(0)

    return give_back


_ARENA_MAX: Final = -8
"""M_ARENA_MAX of glibc's mallopt(3)."""


def use_one_arena() -> None:
    """Have all threads take memory from one place, with glibc; to be called before there are any.

    Otherwise each gets a place of its own, and what one of them freed is of no use to the others. Python lets one thread
    run at a time, so they hardly wait for each other there.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        tune(_ARENA_MAX, 1)


SPACE_PERIOD: Final = 1.0
"""Seconds between two checks of the free space."""

_MORE: Final = 9 / 8
"""This many times the limit must be free before runs are looked at again: otherwise it would flap."""


@dataclass(slots=True)
class Room:
    """One task. It calls `tell` with the reason when nothing new may be accepted, and with None when it may."""

    state: Path
    limit: Callable[[], int]
    tell: Callable[[str | None], None]
    log: Log
    space: Callable[[Path], Space] = space_of
    is_low: bool = False
    _unknown: bool = False

    async def run(self) -> None:
        """Keep checking until cancelled."""
        while True:
            await anyio.sleep(until_beat(SPACE_PERIOD))
            await self.look()

    async def look(self) -> None:
        """Check how much space there is now."""
        try:
            space = await in_thread(self.space, self.state)
        except OSError as error:
            if not self._unknown:
                self.log.warning("disk.unknown", directory=str(self.state), why=error.strerror)
            self._unknown = True
            return
        self._unknown = False
        limit = limit_of(space, self.limit())
        # More must be free than the limit, or each run that is looked at would bring it below again.
        wanted = limit * _MORE if self.is_low else limit
        low = limit > 0 and (space.free < wanted or space.no_files)
        if low != self.is_low:
            self.is_low = low
            self._say(space, limit)
        if low:
            self.tell(_why(self.state, space, limit))

    def _say(self, space: Space, limit: int) -> None:
        if self.is_low:
            self.log.error(
                "disk.low",
                directory=str(self.state),
                free=space.free,
                limit=limit,
                fix="free space there; nothing is lost, and it continues by itself",
            )
        else:
            self.log.info("disk.recovered", directory=str(self.state), free=space.free)
            self.tell(None)


def _why(state: Path, space: Space, limit: int) -> str:
    """For `status`: in whole MB, so that the text doesn't change every second."""
    if space.no_files:
        return f"low disk: no more files can be created in {state} (no inodes left); no run is looked at until there are more"
    return f"low disk: less than {rounded(limit)} free in {state} (low_disk); no run is looked at until there is more"
