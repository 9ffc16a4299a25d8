"""Starts: beginning the runs that were ordered, after the commit, each once.

Open starts are read from their table, so a successor continues where a daemon stopped. Asking twice is harmless: a
run's launcher checks by itself whether the run began (`daemon/launch/ticket.py`). What the machine refuses is retried
with backoff, and shown. A start that can never happen is reported as an event, with the reason. It stays open until a
handler gives it up.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import anyio
import anyio.to_thread
import structlog

from runward.config.settings import Settings
from runward.daemon.faults import point
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import Sight
from runward.daemon.store.store import Store
from runward.daemon.store.tables.chain_runs import offered, slots
from runward.daemon.store.tables.starts import (
    START_BEGUN,
    UnseenRun,
    begun_starts,
    owed_starts,
    seen_sessions,
    unseen_runs,
)
from runward.daemon.store.transaction import CommitUnknown, EpochRefused, Fenced, Row, Statement
from runward.daemon.worker.pacing import Delayed, delayed
from runward.daemon.worker.part import Part
from runward.daemon.world.clock import Clock
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Begun, NotBegun, Processes
from runward.handlers.layouts.native import RUN
from runward.handlers.model.chains import SlotOffered
from runward.handlers.model.invocations import StartedEarlier, StartEvent, StartFailed, StartRun

AT_ONCE: Final = 4
"""How many launchers may be beginning at the same time."""

_GONE: Final = "its run directory, or its run.json, was gone before anyone looked at it"

PERIOD: Final = 1.0
"""Seconds until the store is asked again after a refusal."""


@dataclass(slots=True)
class Starts(Part):
    """The runs that this daemon has to start. One task carries it out."""

    wakes_on: ClassVar = (StartRun,)

    processes: Processes
    files: Files
    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    begun: Callable[[StartRun], None] = lambda order: None
    """Called for each run that began: its directory is worth a look."""
    found: Callable[[StartEvent], None] = lambda event: None
    """Called for each run that can never begin, vanished before it was seen, or began before its order was recorded."""
    _failed: set[str] = field(default_factory=set)
    _unseen: dict[str, UnseenRun] = field(default_factory=dict)
    """Runs that have begun and are not sessions yet, by the keys of their starts."""
    _delayed: dict[str, Delayed] = field(default_factory=dict)
    _trouble: str | None = None

    async def begin(self) -> None:
        """Continue where an earlier daemon stopped, before anything is started. Raises `sqlite3.Error`."""
        found = await owed_starts(self.store)
        owed = [*(each.key for each in found.orders), *(each.key for each in found.hopeless)]
        self._unseen = await unseen_runs(self.store)
        try:
            await anyio.to_thread.run_sync(self.processes.forget_starts, owed)
        except OSError as error:
            self.log.warning("starts.not_tidied", why=error.strerror)

    def degraded(self) -> list[str]:
        """What keeps runs from beginning, for `status`."""
        told = [f"start {key}: {each.why}" for key, each in self._delayed.items() if each.lasts]
        return sorted(told) + ([f"starts: {self._trouble}"] if self._trouble is not None else [])

    async def drain(self) -> bool:
        """Begin all runs that are due; returns whether there were any."""
        did = False
        while await self.carry_out():
            did = True
        if did:
            await self._expect_start()
        await self.look_for_unseen()
        return did

    async def _expect_start(self) -> None:
        """A chain's next step may come soon: keep a launcher ready for it."""
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.processes.expect_start, self.store.epoch)
        except OSError as error:
            self.log.warning("start.not_expected", why=error.strerror)

    def pause(self) -> float | None:
        return self.next_try(PERIOD) or PERIOD if self._unseen else self.next_try()

    def next_try(self, within: float | None = None) -> float | None:
        """Seconds until a refused start is retried, if that is at most `within`; else None."""
        times = [each.at - self.clock.monotonic() for each in self._delayed.values()]
        times += [PERIOD] if self._trouble is not None else []
        wait = max(0.05, min(times)) if times else None
        return None if wait is None or (within is not None and wait > within) else wait

    async def carry_out(self) -> bool:
        """Begin the next runs; returns whether any was due."""
        try:
            owed, hopeless = await owed_starts(self.store)
        except sqlite3.Error as error:
            self._trouble = str(error)
            return False
        for each in hopeless:
            self._fail(*each)
        now = self.clock.monotonic()
        waiting = {order.key: self._delayed[order.key] for order in owed if order.key in self._delayed}
        self._delayed = waiting
        due = [order for order in owed if order.key not in waiting or waiting[order.key].at <= now]
        due = [order for order in due if order.key not in self._failed][:AT_ONCE]
        if not due:
            self._trouble = None
            return False
        with anyio.CancelScope(shield=True):
            # Shielded, because a thread can't be cancelled and what it started must be known.
            await self._note(await self._perform(due))
        return self._trouble is None

    async def look_for_unseen(self) -> None:
        """Report runs that vanished before anyone saw them, and runs that were seen before their orders were recorded.

        The former have no session that could say how they ended. The sessions of the latter don't know their orders.
        """
        if not self._unseen:
            return
        try:
            seen = await seen_sessions(self.store, (each.session for each in self._unseen.values()))
            begun = await begun_starts(self.store, self._unseen)
        except sqlite3.Error as error:
            self._trouble = str(error)
            return
        for key, each in list(self._unseen.items()):
            if key not in begun and each.session not in seen:
                continue  # it is not marked yet, because the store refused
            if each.session in seen or await anyio.to_thread.run_sync(self._is_gone, each):
                del self._unseen[key]
                if each.session not in seen:
                    self._fail(key, each.session, _GONE)
                elif seen[each.session]:
                    self.found(StartedEarlier(key, each.session, self.clock.now()))

    def _is_gone(self, run: UnseenRun) -> bool:
        root, name = os.path.split(run.directory)
        if self.files.away(root) is not None:
            return False
        found = self.files.look(root, name, (RUN,), {})
        return isinstance(found, Gone) or (isinstance(found, Sight) and not found.signatures)

    def _fail(self, key: str, session: str, why: str) -> None:
        """Report once that this start is hopeless. If a crash prevents recording it, a successor reports again."""
        if key not in self._failed:
            self._failed.add(key)
            self.log.error("run.not_begun", session=session, why=why)
            self.found(StartFailed(key, session, self.clock.now(), why))

    async def _perform(self, orders: Sequence[StartRun]) -> list[tuple[StartRun, Begun | NotBegun]]:
        answers: dict[str, Begun | NotBegun] = {}

        async def ask(order: StartRun) -> None:
            answers[order.key] = await anyio.to_thread.run_sync(self._ask, order, self.store.epoch)

        async with anyio.create_task_group() as tasks:
            for order in orders:
                tasks.start_soon(ask, order)
        return [(order, answers[order.key]) for order in orders]

    def _ask(self, order: StartRun, epoch: int) -> Begun | NotBegun:
        away = self.files.away(order.root)
        if away is not None:
            return NotBegun(away)
        point("start.before")
        answer = self.processes.start(order, epoch)
        point("start.after")
        return answer

    async def _note(self, results: Sequence[tuple[StartRun, Begun | NotBegun]]) -> None:
        """Mark what is settled and delay the rest."""
        settled: list[Row] = []
        for order, answer in results:
            match answer:
                case Begun(at=at):
                    settled.append((self.clock.now() if at is None else at, order.key))
                    self._unseen[order.key] = UnseenRun(order.session, f"{order.root}/{order.name}")
                    self.begun(order)
                case NotBegun(why=why, for_good=True):
                    self._fail(order.key, order.session, why)
                case NotBegun(why=why):
                    self._delay(order, why)
        self._trouble = await self._mark(settled) if settled else None
        if self._trouble is not None:
            return
        for order, answer in results:
            if isinstance(answer, Begun):
                self.log.info("run.begun", session=order.session, playbook=order.playbook)

    def _delay(self, order: StartRun, why: str) -> None:
        refused = self._delayed[order.key] = delayed(
            self._delayed.get(order.key), self.clock.monotonic(), why
        )
        if refused.is_worth_saying:
            self.log.warning("run.delayed", session=order.session, why=why, tries=refused.tries)

    async def _mark(self, rows: Sequence[Row]) -> str | None:
        """Mark these starts; if that may have failed, returns why. Then they are requested again."""
        try:
            await self.store.run([Statement(START_BEGUN, rows)], "start")
        except EpochRefused:
            raise
        except (CommitUnknown, Fenced, sqlite3.Error) as error:
            self.log.error("starts.not_marked", why=str(error))
            return str(error)
        return None


_SLOTS_PERIOD: Final = 5.0
"""Seconds until the store is asked again after a refusal."""


@dataclass(slots=True)
class FreeSlots(Part):
    """Offers them to waiting steps. `limit` says how many slots there are."""

    store: Store
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    limit: Callable[[], int]
    tell: Callable[[SlotOffered], None]
    _is_due: bool = True

    def use(self, settings: Settings) -> None:
        """There may be more slots now."""
        self._is_due = True
        self.wake()

    def pause(self) -> float | None:
        return _SLOTS_PERIOD if self._is_due else None

    async def carry_out(self) -> bool:
        """Offer each slot that is free to another step, once."""
        if not self._is_due:
            return False
        try:
            standing, undecided = await slots(self.store), await offered(self.store)
        except sqlite3.Error as error:
            self.log.warning("slots.not_read", why=str(error))
            return False
        self._is_due = False
        now = self.clock.now()
        for waiter in standing.waiters[: max(0, self.limit() - len(standing.running))]:
            if waiter.run in undecided:
                continue  # don't repeat an offer that waits behind a held job each time the daemon starts
            by = f"{self.store.epoch}@{now}"
            self.tell(SlotOffered(waiter.run, waiter.step, waiter.attempt, now, by))
        return True
