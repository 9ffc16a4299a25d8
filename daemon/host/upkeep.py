"""Upkeep alongside the work: keeping the store's log short, and giving memory back when a burst is over."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread
import structlog

from runward.daemon.store.checkpoint import Checkpointer
from runward.daemon.store.store import Store

PERIOD: Final = 1.0
"""Seconds between checks for work."""

MANY_COMMITS: Final = 50
"""Commits after which memory is given back, once a period passes without a commit."""

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
    log: structlog.typing.FilteringBoundLogger
    _seen: int = 0
    _checkpointed: int = 0
    _given_back: int = 0

    async def run(self) -> None:
        """Keep up until cancelled."""
        while True:
            await anyio.sleep(PERIOD)
            await self.step()

    async def step(self) -> None:
        """Do what is due."""
        commits = self.store.commits
        if commits - self._checkpointed >= COMMITS_BETWEEN and self.checkpointer.is_due():
            await self._checkpoint()
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
