"""Which parts the daemon has, and what each gets. Parts are created only here."""

import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from runward.config.bundle import Scheme
from runward.config.settings import Settings
from runward.daemon.engine.background import Background
from runward.daemon.engine.comparison import Comparison
from runward.daemon.engine.deciding import Answers, Decider
from runward.daemon.engine.outbox import Outbox
from runward.daemon.engine.part import Part, Reactions
from runward.daemon.engine.queue import Queue
from runward.daemon.engine.turn import Worker
from runward.daemon.host.report import ForStatus
from runward.daemon.host.roots import KnownRoots, KnownRuns, RootIdentities
from runward.daemon.log import Log
from runward.daemon.parts.answering import InForce, answers_of_the_world
from runward.daemon.parts.bundles import Bundles, RestoredBundles
from runward.daemon.parts.changed_files import ChangedFiles
from runward.daemon.parts.drafting import ToldActions, no_actions
from runward.daemon.parts.drafting_elsewhere import DraftingElsewhere
from runward.daemon.parts.intents import Intents
from runward.daemon.parts.log_lines import ChainHead, Verdicts, log_hashed_files
from runward.daemon.parts.notices import Notices
from runward.daemon.parts.retention import ClockTrust, Packer, Pruner
from runward.daemon.parts.running_outcomes import RunningOutcomes
from runward.daemon.parts.running_replays import RunningReplays
from runward.daemon.parts.runs import CancelOrders, FreeSlots, Starts, Worktrees
from runward.daemon.parts.schedules import Schedules
from runward.daemon.parts.signings import Signings
from runward.daemon.store import journals
from runward.daemon.store.batch import Observation, Rows
from runward.daemon.store.store import Store
from runward.daemon.store.tables import journal_lines
from runward.daemon.watch.following import Follower
from runward.daemon.watch.hints import Coverage, Hints, Target, Why
from runward.daemon.watch.keeping import Exits, WatchKeeping
from runward.daemon.watch.look import Looker
from runward.daemon.watch.looks import AgentsInRuns, HookHints, Looks
from runward.daemon.watch.notifications import Notifications, WatchedDirectories
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import Rounds
from runward.daemon.world.clock import Clock, Randomness
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Processes
from runward.handlers.layouts import native
from runward.handlers.model.chains import EventOccurred, SlotOffered
from runward.handlers.model.events import Event
from runward.handlers.model.exchange import CountIntent, RecordAction
from runward.handlers.model.fleet import AWAITED
from runward.handlers.model.invocations import StartEvent, StartRun
from runward.handlers.model.journal import AppendLines, JournalDamaged, RepairJournal
from runward.handlers.model.outcomes import OutcomesChanged
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.requests import ScanRoots
from runward.handlers.model.schedules import ScheduleChanged
from runward.handlers.model.sessions import EndAttempt, NoteHook

if TYPE_CHECKING:
    from runward.handlers.bundle.signatures import SecretKey


@dataclass(slots=True)
class World:
    """Clock, files, processes and randomness, and what else differs between a real daemon and a simulated one."""

    clock: Clock
    files: Files
    processes: Processes
    randomness: Randomness
    notifications: Notifications
    in_force: InForce
    actions: ToldActions = no_actions
    """What the exchange reports about a session's calls."""
    elsewhere: DraftingElsewhere | None = None
    """Makes the bundles of large sessions in processes of their own."""
    quarantined: Callable[[], list[tuple[str, str]]] = list
    """The chains whose files are wrong, each with the reason. Used in threads; raises `OSError`."""
    directories: WatchedDirectories = field(default_factory=WatchedDirectories)
    """The directories that are watched in addition to the roots."""
    for_status: ForStatus = field(default_factory=ForStatus)
    before_the_first_turn: Callable[[], Coroutine[Any, Any, None]] | None = None
    """What must be there before anything is recorded."""
    tell_other_hosts: Callable[[], None] = lambda: None
    """Called when something is durable for which another host waits."""


class Assembly:
    """The daemon's parts. Nothing runs before the supervisor starts it."""

    def __init__(
        self,
        state: Path | None,
        settings: Settings,
        world: World,
        store: Store,
        log: Log,
    ) -> None:
        self._world = world
        self._store = store
        self._log = log
        self.woken = anyio.Event()
        self.begun_here: set[Target] | None = None
        """The runs that were begun by a daemon that works once: it waits for them."""
        self.roots: dict[str, WatchedRoot] = {}
        self.known_roots = KnownRoots(store, world.clock, self.roots)
        self.coverage = Coverage()
        self.hints = Hints(self.wake)
        self.queue = Queue(store, world.clock, world.randomness)
        self.outbox = Outbox(world.files, store, world.clock, log, lambda: self.worker.busy)
        self._of_each_part = store, world.clock, log
        usual, chains = self._of_each_part, world.in_force.chains
        self.orders = CancelOrders(*usual, files=world.files, processes=world.processes)
        self.starts = Starts(
            *usual,
            processes=world.processes,
            files=world.files,
            begun=self._run_begun,
            report=self._found,
            record=self._record,
            ended=self._run_ended,
        )
        self.worktrees = Worktrees(*usual, processes=world.processes)
        self.notices = Notices(
            *usual,
            messenger=world.in_force.messenger,
            quarantined=world.quarantined,
            steps=self.queue.steps,
        )
        self.free_slots = FreeSlots(*usual, limit=chains.steps_at_once, tell=self._found)
        self.bundles = self._make_bundles(settings.state_dir)
        self.restored_bundles = RestoredBundles(*usual, bundles=self.bundles, busy=self.is_busy)
        self.signings = Signings(*usual, files=world.files, own_key=self.bundles.own_key)
        self.schedules = Schedules(*usual, written=chains.schedules, tell=self._found)
        self.comparison = Comparison(
            files=world.files,
            store=store,
            clock=world.clock,
            log=log,
            outbox=self.outbox,
            damaged=self._found,
            busy=self.outbox.busy,
        )
        self.exits = Exits(world.processes, self.hints)
        self.rounds = self._make_rounds(settings.scan.period)
        self.watch = WatchKeeping(
            notifications=world.notifications,
            roots=self.roots,
            rounds=self.rounds,
            hints=self.hints,
            coverage=self.coverage,
            log=log,
        )
        self.changed_files = ChangedFiles(
            *usual,
            globs=chains.watched_paths,
            tell=self._file_changed,
            watched=world.directories,
            watch_again=self.watch.watch_again,
            period=lambda: self.rounds.period,
            state=settings.state_dir,
        )
        self.running_outcomes = RunningOutcomes(*usual, files=world.files, roots=self.roots, tell=self._found)
        self.intents = Intents(
            *usual,
            files=world.files,
            roots=self.roots,
            record=self._observed,
            most_waiting=lambda: world.in_force.exchange().waiting_intents,
            uid=os.geteuid(),
        )
        self.agents = AgentsInRuns(store, self.roots)
        self.verdicts = Verdicts(world.clock)
        self.decider = Decider(self._make_answers(), store, world.clock)
        self.worker = self._make_worker(settings.batch)
        self.background = self._make_background()
        self.running_replays = self._make_running_replays()
        self.packer = Packer(*usual, queue=self.queue, busy=self.is_busy)
        self.pruner = self._make_pruner(state, settings.retention)
        self.parts: tuple[Part, ...] = (
            self.orders,
            self.starts,
            self.worktrees,
            self.free_slots,
            self.notices,
            self.bundles,
            self.restored_bundles,
            self.signings,
            self.schedules,
            self.changed_files,
            self.running_outcomes,
            self.running_replays,
            self.intents,
            self.pruner,
            self.packer,
            ChainHead(*usual),
        )
        self.queue.wake_foreground = self.wake

    def _make_bundles(self, state: str) -> Bundles:
        return Bundles(
            *self._of_each_part,
            files=self._world.files,
            go_on=lambda read: self.background.go_on(read),
            own_key=lambda scheme: _own_key(state, scheme),
            actions=self._world.actions,
            elsewhere=self._world.elsewhere,
            give_way=lambda: self.background.give_way(),
            low_disk=lambda: self.worker.low_disk,
        )

    def _make_running_replays(self) -> RunningReplays:
        return RunningReplays(
            *self._of_each_part,
            files=self._world.files,
            roots=self.roots,
            bundled=self._world.in_force.bundled,
            actions=self._world.actions,
            busy=self.is_busy,
            low_disk=lambda: self.worker.low_disk,
            placing=self.bundles.placing,
        )

    def _make_pruner(self, state: Path | None, retention: float | None) -> Pruner:
        return Pruner(
            *self._of_each_part,
            files=self._world.files,
            queue=self.queue,
            busy=lambda: self.is_busy() or self.worker.inbox_waits,
            retention=retention,
            trust=ClockTrust(state, self._world.clock),
        )

    def _make_rounds(self, period: float) -> Rounds:
        return Rounds(
            files=self._world.files,
            processes=self._world.processes,
            clock=self._world.clock,
            hints=self.hints,
            coverage=self.coverage,
            log=self._log,
            roots=self.roots,
            period=period,
            watch_again=lambda: self.watch.watch_again(),
            time_leapt=self._time_leapt,
            look_in_inbox=self._inbox,
            unchanged=KnownRuns(self._store, self._world.files).unchanged,
            changed_beside=self._changed_beside,
            accept=RootIdentities(self._store, self._world.files).accept,
        )

    def _make_answers(self) -> Answers:
        return answers_of_the_world(
            files=self._world.files,
            processes=self._world.processes,
            agents=self.agents,
            in_force=self._world.in_force,
            go_on=lambda read: self.background.go_on(read),
            drafted=self.bundles.draft,
        )

    def _make_worker(self, batch: int) -> Worker:
        looks = Looks(
            files=self._world.files,
            clock=self._world.clock,
            store=self._store,
            looker=Looker(self._world.files, self._world.processes, self._world.clock, self.intents.at_end),
            follower=Follower(self._world.files, self._world.processes, self._world.clock),
            agents=self.agents,
            hints=self.hints,
            coverage=self.coverage,
            log=self._log,
            roots=self.roots,
            doubt=self.rounds.doubt,
            opened=self._opened,
            closed=self._closed,
            beginning=self.starts.beginning,
            announced=self.starts.announced,
        )
        return Worker(
            files=self._world.files,
            store=self._store,
            queue=self.queue,
            looks=looks,
            decider=self.decider,
            hints=self.hints,
            outbox=self.outbox,
            log=self._log,
            reactions=self._make_reactions(),
            batch=batch,
        )

    def _opened(self, target: Target, processes: tuple[RecordedProcess, ...]) -> None:
        """Tell the parts that a running session was looked at."""
        # A launcher that is listened to says when its run is over, and its death closes the channel.
        if native.session_key(*target) not in self.starts.announced:
            self.exits.watch(target, processes)
        self.running_outcomes.look(target)
        self.running_replays.look(target)
        self.intents.look(target)

    def _changed_beside(self, target: Target) -> None:
        """Tell the parts that something may have come into a running run that is none of its documents."""
        self.running_outcomes.look(target)
        self.intents.look(target)

    def _closed(self, target: Target) -> None:
        """Tell the parts that a session is over, or has vanished."""
        self.exits.forget(target)
        self.running_outcomes.forget(target)
        self.running_replays.forget(target)
        self.intents.close(target)

    def _make_reactions(self) -> Reactions:
        hooks = HookHints(self._store, self.hints, self.roots, self.agents)
        reactions = Reactions()
        reactions.to(AppendLines, lambda done: self.outbox.add(list(journal_lines.lines_decided(done))))
        reactions.to(RepairJournal, self.comparison.repaired)
        reactions.to(ScanRoots, lambda done: self.rounds.request_scan(everything=True))
        reactions.to(EndAttempt, self.verdicts.react)
        reactions.to(EndAttempt, lambda done: self.worker.looks.judged(effect for _, effect in done))
        reactions.wake(lambda: self.parts)
        reactions.to(RecordAction, self._world.in_force.with_code.forget)
        reactions.to(CountIntent, lambda done: self.running_replays.acted(done))
        for awaited in AWAITED:
            reactions.to(awaited, lambda done: self._world.tell_other_hosts())
        reactions.to(NoteHook, hooks.look)
        reactions.then(NoteHook, hooks.look_again)
        return reactions

    def _make_background(self) -> Background:
        return Background(
            store=self._store,
            queue=self.queue,
            decider=self.decider,
            clock=self._world.clock,
            log=self._log,
            busy=self.is_busy,
            expected_for=self.verdicts.expected_for,
            report=self.worker.report,
            prepared=self.bundles.sealed,
            tell=partial(log_hashed_files, self._log, self._world.clock),
        )

    def is_busy(self) -> bool:
        """Whether verdicts, or their journals, are in progress."""
        return self.worker.busy or self.outbox.behind > 0

    def _found(
        self, event: JournalDamaged | StartEvent | ScheduleChanged | SlotOffered | OutcomesChanged
    ) -> None:
        """Record a fact that one of our parts found, like any other."""
        self._observed(event.key, (event,))

    def _file_changed(self, event: EventOccurred | None, rows: Sequence[Rows]) -> None:
        """A file that chains name changed, or what is watched did; the rows kept for it go with the event."""
        self._observed(
            "watched files" if event is None else event.key, () if event is None else (event,), rows
        )

    def _observed(self, subject: str, events: Sequence[Event], rows: Sequence[Rows] = ()) -> None:
        """Have the worker record these events, and the rows in the same transaction."""
        self._record(Observation(subject, events, rows))

    def _record(self, observation: Observation) -> None:
        self.worker.findings.append(observation)
        self.wake()

    def _run_begun(self, order: StartRun) -> None:
        """An ordered run has begun: request a look at it, in case nothing is watched."""
        names = {root.path: root.name for root in self.roots.values()}
        if order.root in names:
            self.hints.add([(names[order.root], order.name)], Why.WATCH)
            if self.begun_here is not None:
                self.begun_here.add((names[order.root], order.name))

    def _run_ended(self, order: StartRun) -> None:
        """Its launcher said so, or is gone."""
        root, _, name = order.session.removeprefix("native:").partition("/")
        self.hints.add([(root, name)], Why.WATCH | Why.PROCESS)

    def _inbox(self) -> None:
        self.worker.inbox_waits = True
        self.wake()

    def due(self) -> None:
        """Something may have become due."""
        self.queue.may_be_due = True
        self.background.wake()
        self.wake()

    def _time_leapt(self) -> None:
        """Have everybody who waits for a moment measure again."""
        self.due()
        for part in self.parts:
            part.wake()

    def wake(self) -> None:
        """There is something to do."""
        self.woken.set()

    def degraded(self) -> list[Callable[[], list[str]]]:
        """What keeps each part from its work, for `status`."""
        return [
            self.outbox.degraded,
            self.comparison.degraded,
            self.worker.degraded,
            *(part.degraded for part in self.parts),
            self.background.degraded,
            self.decider.degraded,
            self.rounds.degraded,
        ]

    async def begin(self) -> int:
        """Load what the previous daemon left; returns how many journal lines are still to be written."""
        self.outbox.restored = await journals.is_restored(self._store)
        await self.comparison.start()
        owed = await journal_lines.owed(self._store)
        self.outbox.add(owed)
        await self.worker.looks.begin()
        for part in self.parts:
            await part.begin()
        if self._world.before_the_first_turn is not None:
            await self._world.before_the_first_turn()
        return len(owed)

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """The loops that run alongside the worker, each in its own task."""
        return [
            self.exits.run,
            self.rounds.run,
            self.outbox.run,
            self.comparison.run,
            self.background.run,
            *(part.run for part in self.parts),
        ]

    def use(self, settings: Settings) -> None:
        """Continue under other settings, after their roots were taken over."""
        self.worker.batch = settings.batch
        self.rounds.period = settings.scan.period
        for part in self.parts:
            part.use(settings)
        self.watch.watch_again()
        self.rounds.request_scan(everything=True)


def _own_key(state: str, scheme: Scheme) -> "SecretKey":
    from runward.daemon.disk.receipt_keys import own_key_on_first_use  # few daemons sign

    return own_key_on_first_use(state, scheme, os.environ).key
