"""Runs that the daemon starts and ends, and the worktrees that they leave: carried out after the commit.

What is open is read from its table, so a successor continues where a daemon stopped.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from runward.config.json_value import stored_json
from runward.config.settings import Settings
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.part import Delayed, Part, delayed
from runward.daemon.faults import point
from runward.daemon.inbox.launches import launch_of
from runward.daemon.inbox.requests import kept_with
from runward.daemon.processes.cancelling import WORD
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import Sight
from runward.daemon.store.batch import Observation, Rows
from runward.daemon.store.tables import cancellations
from runward.daemon.store.tables.cancellations import OwedCancellation
from runward.daemon.store.tables.chain_runs import offered, slots
from runward.daemon.store.tables.starts import (
    NOTE_BEGUN,
    START_BEGUN,
    UNREADABLE,
    WORKTREE_REMOVED,
    OwedRemoval,
    OwedStart,
    UnseenRun,
    begun_starts,
    owed_removals,
    owed_starts,
    seen_sessions,
    unseen_runs,
)
from runward.daemon.store.transaction import NOT_STORED, CommitUnknown, Fenced, Row, Statement
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Announced, Begun, Channel, NotBegun, NotRemoved, Processes
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.native import RUN
from runward.handlers.model.chains import SlotOffered
from runward.handlers.model.files import Unreadable
from runward.handlers.model.invocations import (
    RemoveWorktree,
    StartedEarlier,
    StartEvent,
    StartFailed,
    StartRun,
)
from runward.handlers.model.processes import is_here
from runward.handlers.model.requests import CancelRun
from runward.handlers.model.sessions import EndTree, Launch

AT_ONCE: Final = 4
"""How many launchers may be beginning at the same time."""

MOST_CHANNELS: Final = 256
"""Launchers that are listened to until their runs are over. Of the ends of other runs their files tell."""

_GONE: Final = "its run directory, or its run.json, was gone or overwritten before anyone looked at it"

_STARTS_PERIOD: Final = 1.0
"""Seconds until the store is asked again after a refusal."""


_Answer: TypeAlias = Begun | Announced | NotBegun


@dataclass(slots=True)
class Starts(Part):
    """The runs that this daemon has to start. One task carries it out."""

    wakes_on: ClassVar = (StartRun,)
    concern: ClassVar = "starts"

    processes: Processes
    files: Files
    begun: Callable[[StartRun], None] = lambda order: None
    """Called for each run that began, or that began in spite of a withdrawn order: its directory is worth a look."""
    report: Callable[[StartEvent], None] = lambda event: None
    """Called for each run that can never begin, vanished before it was seen, or began before its order was recorded."""
    record: Callable[[Observation], None] = lambda observation: None
    """Called with each announced launch, to be recorded."""
    ended: Callable[[StartRun], None] = lambda order: None
    """Called when a launcher says that its run is over, or can't say it any more: its directory is worth a look."""
    beginning: dict[str, StartRun] = field(default_factory=dict)
    """The orders of the runs whose launchers may still announce them, by session key: nobody looks at these."""
    announced: dict[str, Launch] = field(default_factory=dict)
    """What launchers announced over channels that are still open, by session key."""
    _unrecorded: set[str] = field(default_factory=set)
    """The keys of the starts whose launchers announced them, and wait until that is recorded."""
    _tasks: TaskGroup | None = None
    _failed: set[str] = field(default_factory=set)
    _unseen: dict[str, UnseenRun] = field(default_factory=dict)
    """Runs that have begun and are not sessions yet, by the keys of their starts."""
    _delayed: dict[str, Delayed] = field(default_factory=dict)

    async def begin(self) -> None:
        """Continue where an earlier daemon stopped, before anything is started. Raises `sqlite3.Error`."""
        owed_now = await owed_starts(self.store)
        owed = [each.key for each in owed_now]
        orders = [order for each in owed_now if (order := each.order()) is not None]
        self.beginning.update({each.session: each for each in orders})
        self._unseen = await unseen_runs(self.store)
        try:
            # Before anything is started: no launcher of an earlier epoch can use a ticket any more.
            await anyio.to_thread.run_sync(self.processes.forget_starts, owed)
        except OSError as error:
            self.log.warning("starts.not_tidied", why=error.strerror)

    def degraded(self) -> list[str]:
        """What keeps runs from beginning, for `status`."""
        problems = [f"start {key}: {each.why}" for key, each in self._delayed.items() if each.lasts]
        return sorted(problems) + Part.degraded(self)

    async def run(self) -> None:
        """Work until cancelled; the channels of the runs that began are listened to meanwhile."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                await Part.run(self)
            finally:
                self._tasks = None  # what is begun after that, as the daemon ends, is not listened to

    async def drain(self) -> bool:
        """Begin all runs that are due; returns whether there were any."""
        did = False
        while await self.carry_out():
            did = True
        await self.look_for_unseen()
        return did

    async def _expect_start(self) -> None:
        # What forks launchers is there before the first of them: a start of an interpreter takes longer than all else.
        try:
            await anyio.to_thread.run_sync(self.processes.expect_start, self.store.epoch)
        except OSError as error:
            self.log.warning("start.not_expected", why=error.strerror)

    def pause(self) -> float | None:
        return self.next_try(_STARTS_PERIOD) or _STARTS_PERIOD if self._unseen else self.next_try()

    def next_try(self, within: float | None = None) -> float | None:
        """Seconds until a refused start is retried, if that is at most `within`; else None."""
        times = [each.at - self.clock.monotonic() for each in self._delayed.values()]
        times += [_STARTS_PERIOD] if self.trouble is not None else []
        wait = max(0.05, min(times)) if times else None
        return None if wait is None or (within is not None and wait > within) else wait

    async def carry_out(self) -> bool:
        """Begin the next runs; returns whether any was due."""
        try:
            owed = await owed_starts(self.store)
        except sqlite3.Error as error:
            self.trouble = str(error)
            return False
        self._delayed = {each.key: self._delayed[each.key] for each in owed if each.key in self._delayed}
        due = self._due(owed)
        self._forget_withdrawn(owed)
        if not due:
            self.trouble = None
            return False
        # Before their launchers exist: a look that finds the run must find its announcement, too.
        self.beginning.update({order.session: order for order in due})
        with anyio.CancelScope(shield=True):
            # Shielded, because a thread can't be cancelled and what it started must be known.
            await self._expect_start()
            await self._note(await self._perform(due))
        return self.trouble is None

    def _due(self, owed: Sequence[OwedStart]) -> list[StartRun]:
        """The next orders to carry out. Those that are hopeless on the way to them are reported."""
        due: list[StartRun] = []
        now = self.clock.monotonic()
        for each in owed:
            # A hopeless start stays open until a handler gives it up. It is reported once and not tried again.
            if each.key in self._failed or each.key in self._unrecorded:
                continue
            if each.key in self._delayed and self._delayed[each.key].at > now:
                continue
            # Most of what is owed has begun, and is owed until that is recorded: only what is due is decoded.
            if (order := each.order()) is None:
                self._fail(each.key, each.session, each.why or UNREADABLE)
            else:
                due.append(order)
            if len(due) == AT_ONCE:
                break
        return due

    def _forget_withdrawn(self, owed: Sequence[OwedStart]) -> None:
        """Runs that are no longer ordered, because somebody withdrew them, are like any others."""
        for session in self.beginning.keys() - {each.session for each in owed}:
            # Its launcher may be making its worktree, and then it is told to end as soon as it is seen.
            self.begun(self.beginning.pop(session))

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
            self.trouble = str(error)
            return
        for key, each in list(self._unseen.items()):
            if key not in begun and each.session not in seen:
                continue  # it is not marked yet, because the store refused
            if each.session in seen or await anyio.to_thread.run_sync(self._is_gone, each):
                del self._unseen[key]
                if each.session not in seen:
                    self._fail(key, each.session, _GONE)
                elif seen[each.session]:
                    self.report(StartedEarlier(key, each.session, self.clock.now()))

    def _is_gone(self, run: UnseenRun) -> bool:
        root, name = os.path.split(run.directory)
        # A root that is away says nothing about the runs in it.
        if self.files.away(root) is not None:
            return False
        sight = self.files.look(root, name, (RUN,), {})
        if isinstance(sight, Gone):
            return True
        if not isinstance(sight, Sight):
            return False
        # Its command replaced it by something else. No look will ever see a session in that.
        return not sight.signatures or any(
            each.problem is None and isinstance(read_json(each.content), NotJson) for each in sight.documents
        )

    def _fail(self, key: str, session: str, why: str) -> None:
        """Report once that this start is hopeless."""
        if key not in self._failed:
            # In memory only: if a crash prevents recording it, a successor reports again, under the same key.
            self._failed.add(key)
            self.log.error("run.not_begun", session=session, why=why)
            self.report(StartFailed(key, session, self.clock.now(), why))

    async def _perform(self, orders: Sequence[StartRun]) -> list[tuple[StartRun, _Answer]]:
        answers: dict[str, _Answer] = {}

        async def ask(order: StartRun) -> None:
            answers[order.key] = await anyio.to_thread.run_sync(self._ask, order, self.store.epoch)

        async with anyio.create_task_group() as tasks:
            for order in orders:
                tasks.start_soon(ask, order)
        return [(order, answers[order.key]) for order in orders]

    def _ask(self, order: StartRun, epoch: int) -> _Answer:
        away = self.files.away(order.root)
        if away is not None:
            return NotBegun(away)
        point("start.before")
        answer = self.processes.start(order, epoch)
        point("start.after")
        return answer

    async def _note(self, results: Sequence[tuple[StartRun, _Answer]]) -> None:
        """Mark what is settled and delay the rest."""
        settled: list[Row] = []
        for order, answer in results:
            if not (isinstance(answer, NotBegun) and not answer.for_good):
                self.beginning.pop(order.session, None)
            match answer:
                case Announced():
                    self._take_up(order, answer)
                case Begun(at=at):
                    # Marked after the launcher's answer. After a crash in between it is asked again, and its
                    # ticket says that it began.
                    settled.append((self.clock.now() if at is None else at, order.key))
                    self._begun(order)
                case NotBegun(why=why, for_good=True):
                    self._fail(order.key, order.session, why)
                case NotBegun(why=why):
                    self._delay(order, why)
        self.trouble = await self._mark(settled) if settled else None
        if self.trouble is not None:
            return
        for order, answer in results:
            if isinstance(answer, Begun):
                self.log.info("run.begun", session=order.session, playbook=order.playbook)

    def _begun(self, order: StartRun) -> None:
        # Until it is seen as a session, nobody else would notice that it vanished.
        self._unseen[order.key] = UnseenRun(order.session, f"{order.root}/{order.name}")
        self.begun(order)

    def _take_up(self, order: StartRun, announced: Announced) -> None:
        """Have the launch recorded, together with the begin and what the look finds, and then acknowledged."""
        launch, at, channel = announced
        self._unrecorded.add(order.key)
        self.announced[order.session] = launch_of(launch)
        listens = self._tasks is not None and len(self.announced) <= MOST_CHANNELS
        rows = (*kept_with(launch), Rows(NOTE_BEGUN, [(at, order.key)]))
        recorded = partial(self._recorded, order, channel, listens=listens)
        self.record(Observation(order.session, (launch,), rows, recorded))
        self._begun(order)
        if self._tasks is not None and listens:
            self._tasks.start_soon(self._listen, order, channel)

    def _recorded(self, order: StartRun, channel: Channel, *, listens: bool) -> None:
        """The launch is durable: the command may be released."""
        point("start.recorded")
        channel.acknowledge()
        if order.key in self._unrecorded:
            self.log.info("run.begun", session=order.session, playbook=order.playbook)
        self._unrecorded.discard(order.key)
        if not listens:
            self._close(order, channel)

    async def _listen(self, order: StartRun, channel: Channel) -> None:
        try:
            try:
                await channel.ended()
            finally:
                self._forget(order)
            self.ended(order)
            # If it was never recorded, its launcher went another way, and is asked again.
            self.wake()
            await channel.freed()
        finally:
            channel.close()

    def _close(self, order: StartRun, channel: Channel) -> None:
        channel.close()
        self._forget(order)

    def _forget(self, order: StartRun) -> None:
        self.announced.pop(order.session, None)
        self._unrecorded.discard(order.key)

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
        except NOT_STORED as error:
            self.log.error("starts.not_marked", why=str(error))
            return str(error)
        return None


_SLOTS_PERIOD: Final = 5.0
"""Seconds until the store is asked again after a refusal."""


@dataclass(slots=True)
class FreeSlots(Part):
    """Offers them to waiting steps. `limit` says how many slots there are."""

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
            limit = self.limit()
            standing, undecided = await slots(self.store, limit), await offered(self.store)
        except sqlite3.Error as error:
            self.log.warning("slots.not_read", why=str(error))
            return False
        # Reset before the slots are offered: what frees a slot meanwhile makes them due again.
        self._is_due = False
        now = self.clock.now()
        for waiter in standing.waiters[: max(0, limit - len(standing.running))]:
            if waiter.run in undecided:
                continue  # don't repeat an offer that waits behind a held job each time the daemon starts
            by = f"{self.store.epoch}@{now}"
            self.tell(SlotOffered(waiter.run, waiter.step, waiter.attempt, now, by))
        return True


_ORDERS_PERIOD: Final = 5.0
"""Seconds before something that the machine refused is tried again."""


@dataclass(slots=True)
class CancelOrders(Part):
    """The orders that this daemon still has to give. One task gives them, in order."""

    wakes_on: ClassVar = (CancelRun, EndTree)

    files: Files
    processes: Processes
    answers: dict[int, EndOrdered | EndNotOrdered] = field(default_factory=dict)
    """The results of orders that could not be marked as carried out, by their events."""
    inherited: frozenset[int] = frozenset()
    """The open orders of earlier daemons, by their events: they may have been given."""

    def degraded(self) -> list[str]:
        """What keeps orders from being carried out, for `status`."""
        return [] if self.trouble is None else [self.trouble]

    async def begin(self) -> None:
        """Remember what the previous daemon left."""
        # A killed daemon may have given these orders. If the processes are gone then, it can't be known any
        # more.
        self.inherited = frozenset(each.event for each in await cancellations.owed_cancellations(self.store))

    def pause(self) -> float | None:
        return _ORDERS_PERIOD if self.trouble is not None else None

    async def carry_out(self) -> bool:
        """Carry out all open orders that can be carried out, all at once."""
        self.trouble = None
        try:
            for owed in await cancellations.owed_cancellations(self.store):
                await self._one(owed)
        except (sqlite3.Error, CommitUnknown) as error:
            self.trouble = f"orders to cancel: {error}"
            self.log.error("cancel.not_marked", why=str(error))
        return False

    async def _one(self, owed: OwedCancellation) -> None:
        # The order was given, and only its mark failed. It is not given twice.
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

    async def _mark(self, owed: OwedCancellation, answer: EndOrdered | EndNotOrdered) -> None:
        reached, outcome = self._outcome(owed, answer)
        row = (self.clock.now(), reached, outcome, owed.event)
        try:
            await self.store.run([Statement(cancellations.DONE, [row], exact=True)], "cancel")
        except Fenced:
            pass  # marked already, by a commit that seemed to have failed
        self.log.info("cancel.carried_out", session=owed.key, told=reached, outcome=outcome)

    def _outcome(self, owed: OwedCancellation, answer: EndOrdered | EndNotOrdered) -> tuple[bool | None, str]:
        """Whether any process got the order (None if that can't be known), and the outcome in words."""
        if isinstance(answer, EndOrdered):
            return True, answer.who
        if answer.too_late and owed.event in self.inherited:
            return None, f"{answer.why}; a killed daemon may already have asked it to end"
        return False, answer.why

    def _tell(self, owed: OwedCancellation) -> EndOrdered | EndNotOrdered:
        """Leave the note and send the signal. Raises OSError for what may work later."""
        host = owed.processes.host
        if not is_here(host, self.processes.host()):
            return EndNotOrdered(f"its processes run on {host}")
        if owed.is_kill:
            # A daemon that was replaced must not kill: its successor may have begun another attempt in this
            # run.
            self.files.check_epoch(self.store.epoch)
            return self.processes.end_tree(owed.processes, owed.directory)
        word = stored_json({"said_by": owed.said_by, "reason": owed.reason}) + b"\n"
        self.files.check_epoch(self.store.epoch)  # a successor may find it too late by then
        # The note comes before the signal, so that the launcher finds it.
        place = self.files.leave_word(owed.directory, WORD, word)
        if isinstance(place, Gone):
            return EndNotOrdered("its directory is gone", too_late=True)
        if isinstance(place, Unreadable):
            raise OSError(0, f"its directory can't be read: {place.why}")
        if place.problem is not None:
            self.log.warning("cancel.word_not_left", session=owed.key, why=place.problem)
        return self.processes.tell_to_end(owed.processes, place)


_REMOVALS_PERIOD: Final = 30.0
"""Seconds before something that the machine refused is tried again."""


@dataclass(slots=True)
class Worktrees(Part):
    """The worktrees that this daemon has to remove. One task removes them, one after another."""

    wakes_on: ClassVar = (RemoveWorktree,)

    processes: Processes
    _troubles: dict[str, str] = field(default_factory=dict)

    def degraded(self) -> list[str]:
        """What keeps worktrees from being removed, for `status`."""
        return [f"worktree {name}: {why}" for name, why in sorted(self._troubles.items())]

    def pause(self) -> float | None:
        return _REMOVALS_PERIOD if self._troubles else None

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
        except Fenced:
            pass  # marked already, by a commit that seemed to have failed
        if removed is None:
            self.log.info("worktree.removed", session=owed.session_key)
        else:
            self.log.warning("worktree.still_listed", session=owed.session_key, why=removed)
        return None
