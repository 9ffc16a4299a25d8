"""Working until nothing is due soon: `daemon --once`, which watches nothing and looks at everything itself."""

from collections.abc import Callable
from typing import Final

import anyio
import anyio.lowlevel

from runward.daemon.host.assembly import Assembly
from runward.daemon.ports.clock import Clock
from runward.daemon.watch.hints import Why
from runward.daemon.worker.outbox import MANY_OWED

SOON: Final = 10.0
"""`daemon --once` waits for what is due within this many seconds, settling and grace included."""

OWN_RUNS_PERIOD: Final = 0.25
"""Seconds between two looks at the runs that `daemon --once` waits for."""

LOW_DISK_PERIOD: Final = 1.0
"""Seconds between two looks at whether there is enough room on the disk again."""


class WorkingOnce:
    """Scans everything, then works until nothing is due within `SOON` seconds, or until `is_stopping`.

    If it `waits`, it continues until the runs that were begun here are judged.
    """

    def __init__(
        self, assembly: Assembly, clock: Clock, is_stopping: Callable[[], bool], waits: bool
    ) -> None:
        self._assembly = assembly
        self._clock = clock
        self._is_stopping = is_stopping
        assembly.begun_here = set() if waits else None
        assembly.queue.horizon = clock.now()
        assembly.running_replays.patience, assembly.running_replays.share = 0.0, 0

    async def run(self) -> None:
        """Work; the store is taken over already."""
        assembly = self._assembly
        await assembly.rounds.check_roots()
        await assembly.rounds.scan()
        assembly.rounds.check_due()
        await assembly.schedules.carry_out()
        await assembly.changed_files.look_once()
        while not self._is_stopping():
            while await self._step():
                pass
            for part in assembly.parts:
                if part.is_owed:
                    await part.drain()
            if len(assembly.hints) or assembly.worker.findings or await assembly.background.drain():
                if assembly.worker.low_disk is not None:
                    await anyio.sleep(LOW_DISK_PERIOD)
                continue
            patience = await self._patience()
            if patience is None:
                if not self._is_waited_for():
                    break
                patience = OWN_RUNS_PERIOD
            await anyio.sleep(patience)
            await assembly.rounds.check_processes(doubted=True)
            await assembly.rounds.scan_doubtful()
            assembly.rounds.check_due()
            assembly.queue.may_be_due = True

    def _is_waited_for(self) -> bool:
        """Whether any run that was begun here is not over.

        All of them are looked at again, because nothing is watched.
        """
        going = [
            (name, place)
            for name, place in self._assembly.begun_here or ()
            if (root := self._assembly.roots.get(name)) is not None and place in root.open
        ]
        self._assembly.hints.add(going, Why.PROCESS)
        return bool(going)

    async def _step(self) -> bool:
        """Do some of what is waiting; returns whether there was anything."""
        if self._assembly.outbox.behind > MANY_OWED // 2:
            await self._assembly.outbox.carry_out()  # nothing else does it here, and a turn would wait for it
        return (
            await self._assembly.worker.turn()
            or await self._assembly.comparison.step()
            or await self._assembly.outbox.carry_out()
        )

    async def _patience(self) -> float | None:
        """How long to wait for what is due soon; None if nothing is."""
        if any(root.doubted for root in self._assembly.roots.values()):
            return 0.5
        now = self._clock.now()
        again = self._assembly.rounds.next_due(with_judged=False)
        if again is not None and again < SOON:
            return max(0.05, again)
        times = [await self._assembly.worker.next_due(), await self._assembly.background.next_due(now)]
        soon = [due - now for due in times if due is not None and due - now < SOON]
        if soon:
            return max(0.05, min(soon))
        waits = [
            each.next_try(SOON)
            for each in (self._assembly.outbox, self._assembly.starts, self._assembly.comparison)
        ]
        return min((wait for wait in waits if wait is not None), default=None)
