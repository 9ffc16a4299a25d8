"""A stand-in for what is around the pure machine of chains: tables, lanes, a clock, launchers and people.

The machine is mistreated, too: a daemon is killed between a decision and its commit, or after the commit and before it
carried out what was ordered; the wall clock is stepped, and what waits moves with it, as in the store; the number of slots changes.

Every event goes through `duties` and `decide`, as in the daemon, and each job of a lane waits for the one before it. Which
lane comes next, how late a timer rings, what commands and people do, and when: all of it is drawn from the seed.
"""

import hashlib
import heapq
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.handlers.chains.chain_outside import Outside
from tests.handlers.chains.chain_rows import Asked, Broken, Command, Laws, Row, Try
from tests.handlers.chains.drawn_chains import drawn_chain, echo

from runward.config.playbook import Playbook
from runward.handlers.model.approvals import (
    ApprovalOf,
    ApprovalStanding,
    AskApproval,
    DecideApproval,
    FilesLeftIn,
    LeftFiles,
    WorkplaceOf,
)
from runward.handlers.model.asking import Given, NotYet, Question, TryLater
from runward.handlers.model.chains import (
    ChainFired,
    ChainFires,
    ChainFiresNow,
    ChainNamed,
    ChainRunFinished,
    ChainRunOf,
    ChainRunStanding,
    ChainRunTurn,
    FiringsOf,
    IsHeard,
    LaneWaits,
    LeftBy,
    LeftBySession,
    ListenersTo,
    OpenChainRun,
    OpenRun,
    OpenRunsOf,
    RecordFiring,
    SetChainRun,
    SetChainStatus,
    SetStep,
    SlotOffered,
    SlotsNow,
    SlotsStanding,
    StepsAtOnce,
    StepStanding,
    Waiter,
)
from runward.handlers.model.contracts import ProducedBy
from runward.handlers.model.effects import Effect, Emit, Explain
from runward.handlers.model.events import Event
from runward.handlers.model.fleet import HeardElsewhere, OwnHost
from runward.handlers.model.invocations import (
    EndInvocation,
    GiveUpStart,
    Invocation,
    InvocationOf,
    OpenInvocation,
    Play,
    PlayOf,
    StartFailed,
    StartRun,
    WithdrawStart,
)
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import ArtifactFilesOf, OutcomesIn
from runward.handlers.model.requests import SessionCancelRequested
from runward.handlers.model.schedules import TimerRang, TimerSet
from runward.handlers.model.sessions import Session, SessionFinished, SessionOf, Status
from runward.handlers.route import decide, duties

MOST_JOBS: Final = 20_000
_OURS: Final = ("chains/", "approvals/", "timers/", "starts/")
_TOLD_AGAIN: Final = (
    *(ChainFired, ChainRunFinished, ChainRunTurn, SlotOffered),
    *(SessionFinished, StartFailed, TimerSet, TimerRang),
)


@dataclass
class Job:
    event: Event
    handler: str
    due: float


class World:
    """One history. `laws` is told of all that happens, and raises `Broken`."""

    laws: Laws

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.now = 1_000.0
        self.slots = self.dice.choice((1, 1, 2, 3, 16))
        self.chains = {
            each.name: each
            for each in (drawn_chain(self.dice, f"c{n}") for n in range(self.dice.choice((1, 2, 3))))
        }
        if self.dice.random() < 0.04:
            self.chains["echo"] = echo(self.dice)
        self.version = 0
        self.runs: dict[str, Row] = {}
        self.commands: dict[str, Command] = {}
        self.approvals: dict[str, Asked] = {}
        self.firings: list[RecordFiring] = []
        self.statuses: dict[str, SetChainStatus] = {}
        self.invocations: dict[str, OpenInvocation] = {}
        self.lanes: dict[str, deque[Job]] = {}
        self.reached: Counter[str] = Counter()
        self.outside = Outside(self)
        self._known: set[str] = set()
        self._coming: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    # what happens, and when

    def play(self) -> None:
        """Live through it, until nothing is left to do."""
        self.outside.plan()
        while True:
            ready = [lane for lane, jobs in self.lanes.items() if jobs and jobs[0].due <= self.now]
            if ready:
                if self.dice.random() < 0.05:
                    self._pass(self.now + self.dice.uniform(0.0, 4.0))
                if self.dice.random() < 0.01:
                    self._step_clock(self.dice.choice((-4096.0, -64.0, 64.0, 4096.0)))
                self._do(self.dice.choice(ready))
                continue
            self.laws.at_rest()
            times = [jobs[0].due for jobs in self.lanes.values() if jobs]
            if self._coming:
                times.append(self._coming[0][0])
            if times:
                late = self.dice.uniform(0.0, 30.0) if self.dice.random() < 0.1 else 0.0
                self._pass(max(self.now, min(times)) + late)
            elif not self.outside.last_answer():
                return

    def _pass(self, now: float) -> None:
        self.now = now
        while self._coming and self._coming[0][0] <= now:
            heapq.heappop(self._coming)[2]()

    def _step_clock(self, seconds: float) -> None:
        """The wall clock is stepped. What waits measures the time that passes, so its times move by as much."""
        self.reached["a step of the clock"] += 1
        self.now += seconds
        self._coming = [(at + seconds, *rest) for at, *rest in self._coming]  # type: ignore[misc] # the same rest
        for jobs in self.lanes.values():
            for job in jobs:
                job.due += seconds if job.due else 0.0
        for run in self.runs.values():
            if not run.is_open:
                continue
            if run.opened.deadline is not None:
                run.opened = run.opened._replace(deadline=run.opened.deadline + seconds)
            for tries in run.steps.values():
                for each in tries:
                    each.since += seconds
        for asked in self.approvals.values():
            if asked.status == "asked" and asked.row.expires_at is not None:
                asked.row = asked.row._replace(expires_at=asked.row.expires_at + seconds)

    def resize(self, slots: int) -> None:
        """The settings allow another number of steps at once: what became free is offered, as at a daemon's start."""
        self.slots = slots
        for waiter in self.waiters[: max(0, slots - len(self.running))]:
            self.record(
                SlotOffered(waiter.run, waiter.step, waiter.attempt, self.now, f"settings@{self._count}")
            )
            self.reached["a slot that the settings brought"] += 1

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._coming, (self.now + seconds, self._count, what))

    @property
    def words(self) -> tuple[str, ...]:
        return ("work", str(self.version), "{{ with.n }}")

    # events and jobs

    def record(self, event: Event, again: bool = False) -> None:
        """Record an event; one that was recorded before is not, unless it is told `again`."""
        key = f"{event.type} {event.key}"
        if key in self._known and not again:
            return
        self._known.add(key)
        for duty in duties(event):
            if duty.handler.startswith(_OURS):
                self.lanes.setdefault(duty.lane, deque()).append(Job(event, duty.handler, duty.due))

    def _do(self, lane: str) -> None:
        job = self.lanes[lane][0]
        self._count += 1
        if self._count > MOST_JOBS:
            raise Broken("it goes in circles")
        secret = hashlib.sha256(f"{job.event.type} {job.event.key}".encode()).hexdigest()
        try:
            effects = self._decided(decide(job.handler, job.event, Given(secret, self.now)))
        except NotYet as early:
            job.due = early.until
            return
        except TryLater:
            job.due = self.now + self.dice.uniform(0.1, 2.0)
            return
        if self.dice.random() < 0.03:
            self.reached["a daemon that was killed before its commit"] += 1
            return
        self.lanes[lane].popleft()
        for effect in effects:
            self._apply(effect)
        self.laws.done(job.event, effects)
        if isinstance(job.event, _TOLD_AGAIN) and self.dice.random() < 0.06:
            self.reached[f"told twice: {job.event.type}"] += 1
            self.after(self.dice.uniform(0.0, 60.0), lambda: self.record(job.event, again=True))

    def _decided(self, found: Any) -> tuple[Effect, ...]:
        if isinstance(found, tuple):
            return found
        answer: object = None
        while True:
            try:
                answer = self._answer(found.send(answer))
            except StopIteration as end:
                effects: tuple[Effect, ...] = end.value
                return effects

    # what is known

    def rows(self) -> Iterator[tuple[Row, int, Try]]:
        """The last try of each step of each run."""
        for run in self.runs.values():
            for index, tries in run.steps.items():
                yield run, index, tries[-1]

    @property
    def running(self) -> frozenset[tuple[str, int]]:
        return frozenset(
            (run.opened.id, index) for run, index, last in self.rows() if last.status == "running"
        )

    @property
    def waiters(self) -> tuple[Waiter, ...]:
        return tuple(
            sorted(
                Waiter(run.opened.created_at, run.opened.id, index, last.attempt)
                for run, index, last in self.rows()
                if (last.status, last.reason) == ("waiting", "step.waiting.slot")
            )
        )

    def _standing(self, run: str) -> ChainRunStanding | None:
        row = self.runs.get(run)
        if row is None:
            return None
        steps = {
            index: StepStanding(index, last.status, last.reason, last.session, last.attempt, last.outcome)
            for index, (*_, last) in row.steps.items()
        }
        return row.opened._replace(
            status=row.status, reason_code=row.reason, reason_summary=row.why, steps=steps
        )

    def _session(self, key: str) -> Session | None:
        command = self.commands.get(key)
        if command is None or command.began is None:
            return None
        status: Status = "running" if command.said is None else command.said[0]
        where = f"/runs/{command.start.name}"
        return Session(
            key,
            command.start.name,
            "native",
            where,
            status,
            1,
            f"{where}/a",
            None,
            None,
            None,
            command.began,
            "live",
        )

    def _answer(self, question: Question[Any]) -> object:
        match question:
            case ChainRunOf(run=run):
                return self._standing(run)
            case OpenRunsOf(chain=chain):
                return tuple(
                    OpenRun(each.opened.id, each.opened.turn, each.waits)
                    for each in self.runs.values()
                    if each.opened.chain == chain and each.is_open
                )
            case FiringsOf(chain=chain):
                by_event = [
                    each.at for each in self.firings if each.chain == chain and each.result.endswith(".event")
                ]
                return tuple(reversed(by_event[-60:]))
            case ChainFiresNow(chain=chain):
                said = self.statuses.get(chain)
                return None if said is None else ChainFires(said.status, said.at, said.note, said.said_by)
            case IsHeard(event=name):
                return any(each.event == name for each in self.chains.values())
            case HeardElsewhere() | OwnHost():
                return None
            case ListenersTo(event=name):
                return tuple(each.read for each in self.chains.values() if each.event == name)
            case ChainNamed(name=name):
                return self.chains[name].read
            case SlotsNow():
                return SlotsStanding(self.running, self.waiters)
            case StepsAtOnce():
                return self.slots
            case PlayOf(playbook=name):
                return Play(Playbook(name, self.words, timeout=120.0), root_name="runs", root_path="/runs")
            case SessionOf(key=key):
                return self._session(key)
            case LeftBy(session_key=key):
                told = self.commands[key].said
                outcome = None if told is None else told[2]
                return LeftBySession(outcome if isinstance(outcome, dict) else None)
            case LaneWaits():
                return self.dice.random() < 0.05
            case InvocationOf(session_key=key):
                found = self.invocations.get(key)
                return None if found is None else Invocation(found.id, found.skill, None, found.chain_run)
            case ApprovalOf(id=approval):
                return self._approval(approval)
            case RecipientsOf() | OutcomesIn() | ArtifactFilesOf():
                return ()
            case ProducedBy() | WorkplaceOf():
                return None
            case FilesLeftIn(places=places):
                return tuple(LeftFiles(()) for _ in places)
        raise Broken(f"nobody knows how to answer {question}")

    def _approval(self, approval: str) -> ApprovalStanding | None:
        asked = self.approvals.get(approval)
        if asked is None:
            return None
        return asked.row._replace(status=asked.status)

    # what is ordered

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Emit(event=SessionCancelRequested() as order):
                self.outside.end(order.session_key)
            case Emit(event=event):
                self.record(event)
            case OpenChainRun():
                name = effect.run.id
                if name in self.runs:
                    raise Broken(f"{name} is opened twice")
                self.runs[name] = Row(effect.run)
                self.laws.opened(self.runs[name])
            case SetStep():
                self._set_step(effect)
            case SetChainRun():
                row = self.runs[effect.run]
                self.laws.run_set(row, effect)
                row.status, row.reason, row.why = effect.status, effect.reason_code, effect.reason_summary
                self.reached[f"a run: {effect.reason_code}"] += 1
            case StartRun():
                run = dict(effect.metadata)["chain_run_id"]
                self.laws.start(self.runs[str(run)], effect)
                self.commands[effect.session] = Command(effect)
                self.after(self.dice.uniform(0.1, 6.0), lambda: self.outside.begin(effect.session))
                if (
                    self.dice.random() < 0.05
                ):  # a daemon that was killed is followed by one that starts it again
                    self.after(self.dice.uniform(0.1, 30.0), lambda: self.outside.begin(effect.session))
            case WithdrawStart(session_key=key):
                command = self.commands[key]
                if command.state == "ordered" and self.dice.random() < 0.7:
                    command.state = "withdrawn"
            case RecordFiring():
                self.firings.append(effect)
                self.reached[effect.result] += 1
            case SetChainStatus():
                self.statuses[effect.chain] = effect
            case AskApproval():
                self.outside.ask(effect.asked)
            case DecideApproval():
                asked = self.approvals[effect.id]
                self.laws.decided_on(asked, effect)
                asked.status, asked.by, asked.decided_at = effect.decision, effect.said_by, effect.at
                self.reached[f"an approval: {effect.decision}"] += 1
            case OpenInvocation():
                if effect.session_key is not None:
                    self.invocations[effect.session_key] = effect
            case Explain() | EndInvocation() | GiveUpStart():
                pass
            case _:
                raise Broken(f"nobody ordered such a thing: {effect}")

    def _set_step(self, effect: SetStep) -> None:
        row = self.runs[effect.run]
        step = effect.standing
        tries = row.steps.setdefault(step.step, [])
        last = tries[-1] if tries else None
        self.laws.step_set(row, last, effect)
        self.reached[f"a step: {step.reason or step.status}"] += 1
        if last is None or last.attempt != step.attempt:
            last = Try(step.attempt, step.status, None, None, None, None, self.now)
            tries.append(last)
        waits_for_turn = step.status == "waiting" and step.reason is None and step.attempt == 1
        if step.status in ("waiting", "waiting_approval", "running") and not waits_for_turn:
            last.was_judged = True
        last.status, last.reason, last.why = step.status, step.reason, effect.reason_summary
        last.session, last.outcome, last.since = step.session_key, step.outcome, self.now
