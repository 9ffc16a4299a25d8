"""Worktrees of steps that are over: removing the ones that are not kept, after the commit.

Open removals are read from their table, so a successor continues where a daemon stopped. Removing a worktree that is
already gone works too, so a crash in between changes nothing. What the machine refuses is retried, and shown.
"""

import sqlite3
from dataclasses import dataclass, field
from typing import ClassVar, Final

import structlog

from runward.daemon.disk.in_thread import in_thread
from runward.daemon.faults import point
from runward.daemon.store.store import Store
from runward.daemon.store.tables.starts import WORKTREE_REMOVED, OwedRemoval, owed_removals
from runward.daemon.store.transaction import CommitUnknown, EpochRefused, Fenced, Statement
from runward.daemon.worker.part import Part
from runward.daemon.world.clock import Clock
from runward.daemon.world.processes import NotRemoved, Processes
from runward.handlers.model.invocations import RemoveWorktree

_PERIOD: Final = 30.0
"""Seconds before something that the machine refused is tried again."""


@dataclass(slots=True)
class Worktrees(Part):
    """The worktrees that this daemon has to remove. One task removes them, one after another."""

    wakes_on: ClassVar = (RemoveWorktree,)

    processes: Processes
    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    _troubles: dict[str, str] = field(default_factory=dict)

    def degraded(self) -> list[str]:
        """What keeps worktrees from being removed, for `status`."""
        return [f"worktree {name}: {why}" for name, why in sorted(self._troubles.items())]

    def pause(self) -> float | None:
        return _PERIOD if self._troubles else None

    async def carry_out(self) -> bool:
        """Remove all that are due and can be removed; returns whether there were any."""
        troubles: dict[str, str] = {}
        did = False
        try:
            for owed in await owed_removals(self.store):
                why = await self._one(owed)
                did = did or why is None
                if why is not None:
                    troubles[owed.name] = why
        except EpochRefused:
            raise
        except (sqlite3.Error, CommitUnknown) as error:
            troubles["of all"] = str(error)
            did = False
            self.log.error("worktrees.not_marked", why=str(error))
        self._troubles = troubles
        return did

    async def _one(self, owed: OwedRemoval) -> str | None:
        """Remove it; returns why that failed."""
        point("worktree.before")
        removed = await in_thread(self.processes.remove_worktree, owed.name, owed.repo)
        point("worktree.after")
        if isinstance(removed, NotRemoved):
            self.log.warning("worktree.not_removed", session=owed.session_key, why=removed.why)
            return removed.why
        try:
            row = (self.clock.now(), removed, owed.session_key)
            await self.store.run([Statement(WORKTREE_REMOVED, [row], exact=True)], "worktree")
        except EpochRefused:
            raise
        except Fenced:
            pass  # marked already, by a commit that seemed to have failed
        if removed is None:
            self.log.info("worktree.removed", session=owed.session_key)
        else:
            self.log.warning("worktree.still_listed", session=owed.session_key, why=removed)
        return None
