"""Orders to end runs: carrying them out, after the commit.

Open orders are read from their table, so a successor continues where a daemon stopped. Sending an order to a run twice
is harmless: its launcher keeps to the first one, and before each signal the process is compared with the recorded one.
What the machine refuses for now is retried, and shown.

If a daemon was killed, it is impossible to know whether it had sent the order once the run's processes have ended. Such
an order counts as given."""

import sqlite3
from dataclasses import dataclass, field
from typing import ClassVar, Final

import anyio
import anyio.to_thread
import structlog
from pydantic_core import to_json

from runward.daemon.faults import point
from runward.daemon.processes.cancelling import WORD
from runward.daemon.processes.ending_runs import NotTold, Told
from runward.daemon.rundir.opening import Gone
from runward.daemon.store.store import Store
from runward.daemon.store.tables import starts
from runward.daemon.store.tables.starts import OwedCancellation
from runward.daemon.store.transaction import CommitUnknown, EpochRefused, Fenced, Statement
from runward.daemon.worker.part import Part
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Processes
from runward.handlers.model.files import Unreadable
from runward.handlers.model.processes import is_here
from runward.handlers.model.requests import CancelRun
from runward.handlers.model.sessions import EndTree

PERIOD: Final = 5.0
"""Seconds before something that the machine refused is tried again."""


@dataclass(slots=True)
class CancelOrders(Part):
    """The orders that this daemon still has to give. One task gives them, in order."""

    wakes_on: ClassVar = (CancelRun, EndTree)

    files: Files
    processes: Processes
    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    answers: dict[int, Told | NotTold] = field(default_factory=dict)
    """The results of orders that could not be marked as carried out, by their events."""
    inherited: frozenset[int] = frozenset()
    """The open orders of earlier daemons, by their events: they may have been given."""
    trouble: str | None = None
    """Why an order could not be carried out yet."""

    def degraded(self) -> list[str]:
        """What keeps orders from being carried out, for `status`."""
        return [] if self.trouble is None else [self.trouble]

    async def begin(self) -> None:
        """Remember what the previous daemon left."""
        self.inherited = frozenset(each.event for each in await starts.owed_cancellations(self.store))

    def pause(self) -> float | None:
        return PERIOD if self.trouble is not None else None

    async def carry_out(self) -> bool:
        """Carry out all open orders that can be carried out, all at once."""
        self.trouble = None
        try:
            for owed in await starts.owed_cancellations(self.store):
                await self._one(owed)
        except (sqlite3.Error, CommitUnknown) as error:
            self.trouble = f"orders to cancel: {error}"
            self.log.error("cancel.not_marked", why=str(error))
        return False

    async def _one(self, owed: OwedCancellation) -> None:
        if owed.event not in self.answers:
            point("cancel.before")
            try:
                with anyio.CancelScope(shield=True):
                    self.answers[owed.event] = await anyio.to_thread.run_sync(self._tell, owed)
            except OSError as error:
                self.trouble = f"cancelling {owed.key}: {error.strerror}"
                self.log.warning("cancel.delayed", session=owed.key, why=error.strerror)
                return
            point("cancel.after")
        await self._mark(owed, self.answers[owed.event])
        del self.answers[owed.event]

    async def _mark(self, owed: OwedCancellation, answer: Told | NotTold) -> None:
        told, outcome = self._outcome(owed, answer)
        row = (self.clock.now(), told, outcome, owed.event)
        try:
            await self.store.run([Statement(starts.CANCELLATION_DONE, [row], exact=True)], "cancel")
        except EpochRefused:
            raise
        except Fenced:
            pass  # marked already, by a commit that seemed to have failed
        self.log.info("cancel.carried_out", session=owed.key, told=told, outcome=outcome)

    def _outcome(self, owed: OwedCancellation, answer: Told | NotTold) -> tuple[bool | None, str]:
        """Whether any process got the order (None if that can't be known), and the outcome in words."""
        if isinstance(answer, Told):
            return True, answer.who
        if answer.too_late and owed.event in self.inherited:
            return None, f"{answer.why}; a killed daemon may already have asked it to end"
        return False, answer.why

    def _tell(self, owed: OwedCancellation) -> Told | NotTold:
        """Leave the note and send the signal. Raises OSError for what may work later."""
        host = owed.processes.host
        if not is_here(host, self.processes.host()):
            return NotTold(f"its processes run on {host}")
        if owed.is_kill:
            self.files.check_epoch(self.store.epoch)
            return self.processes.end_tree(owed.processes, owed.directory)
        word = to_json({"said_by": owed.said_by, "reason": owed.reason}) + b"\n"
        self.files.check_epoch(self.store.epoch)  # a successor may find it too late by then
        place = self.files.leave_word(owed.directory, WORD, word)
        if isinstance(place, Gone):
            return NotTold("its directory is gone", too_late=True)
        if isinstance(place, Unreadable):
            raise OSError(0, f"its directory can't be read: {place.why}")
        if place.problem is not None:
            self.log.warning("cancel.word_not_left", session=owed.key, why=place.problem)
        return self.processes.tell_to_end(owed.processes, place)
