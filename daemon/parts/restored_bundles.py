"""The parts of bundles after a restore: those that are missing are made again, while no verdict is in progress.

The restore marks each bundle whose parts were in place when the backup was made. A mark is removed once the parts were
looked for, so a successor continues where a daemon stopped. New bundles never wait for these: `Bundles` places them
meanwhile.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread
import structlog

from runward.daemon.parts.bundles import KEPT_ASIDE, Bundles
from runward.daemon.ports.clock import Clock
from runward.daemon.store.store import Store
from runward.daemon.store.tables import receipts
from runward.daemon.store.tables.receipts import UnplacedBundle
from runward.daemon.store.transaction import CommitUnknown, EpochRefused, Fenced, Row, Statement
from runward.daemon.worker.part import Part
from runward.daemon.worker.slices import Slices
from runward.handlers.bundle.orders import MOVED
from runward.handlers.model.unreadable import Unreadable

BATCH: Final = 64
"""The maximum number of bundles that are looked for before they are marked."""

PERIOD: Final = 60.0
"""Seconds before something that the machine refused is tried again."""


@dataclass(slots=True)
class RestoredBundles(Part):
    """The bundles that a restored store had in place. One task looks for their parts."""

    bundles: Bundles
    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    _trouble: str | None = None
    _seen: int = 0
    """The last bundle that this pass reached, so that refused ones don't hold up others."""
    _slices: Slices = field(init=False)

    def __post_init__(self) -> None:
        self._slices = Slices(self.clock, self.busy, BATCH)

    def degraded(self) -> list[str]:
        """What keeps parts from being made again, for `status`."""
        return [] if self._trouble is None else [f"bundles of the restored store: {self._trouble}"]

    def pause(self) -> float | None:
        return PERIOD if self._trouble is not None else None

    async def carry_out(self) -> bool:
        """Look for the next ones; returns whether there were any that this pass had not reached."""
        if self._seen == 0:
            self._trouble = None
        try:
            found = await receipts.unplaced(self.store, self._seen, self._slices.size, was_placed=True)
            self._seen = found[-1].seq if found else 0
            if found:
                await self._slices.begin()
                looked_for = [row for bundle in found if (row := await self._look_for(bundle)) is not None]
                if looked_for:
                    await self.store.run([Statement(receipts.PLACED, looked_for)], "place")
                await self._slices.end()
        except EpochRefused:
            raise
        except (CommitUnknown, Fenced, sqlite3.Error) as error:
            self._trouble = str(error)
            self.log.error("bundles.not_marked", why=str(error))
            self._seen = 0
            return False
        return bool(found)

    async def _look_for(self, bundle: UnplacedBundle) -> Row | None:
        """The row that ends the search for its parts; None if it continues later."""
        with anyio.CancelScope(shield=True):
            answer = await anyio.to_thread.run_sync(self.bundles.place_missing, bundle)
        if isinstance(answer, Unreadable):
            self._trouble = f"{bundle.directory}: {answer.why}"
            self.log.warning("bundle.delayed", session=bundle.key, why=answer.why)
            return None
        if answer.why_never is not None:
            self.log.warning(
                "bundle.not_placed", session=bundle.key, attempt=bundle.attempt, why=answer.why_never
            )
            return (self.clock.now(), answer.why_never, answer.directory, bundle.seq)
        is_moved = answer.directory != bundle.directory
        problem = answer.problem if is_moved else _still_true(bundle.place_problem)
        return (self.clock.now(), problem, answer.directory, bundle.seq)


def _still_true(problem: str | None) -> str | None:
    """The earlier problem with the place, if it still exists: files that were kept aside, or another directory."""
    still_true = problem is not None and (problem.startswith(KEPT_ASIDE) or problem.endswith(MOVED))
    return problem if still_true else None
