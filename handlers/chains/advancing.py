"""How a chain run advances: from its current state to its next step, or to its end."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.chain import Chain, chain_of
from runward.config.contract import contract_to_json, resolve_contract
from runward.config.counted_values import Budget
from runward.config.json_value import JsonValue
from runward.config.seen import SeenChain, SeenStep
from runward.config.step import NOT_STARTED, Step
from runward.handlers.chains.elsewhere import cancel_order, ends_in_doubt, is_elsewhere
from runward.handlers.chains.stepping import (
    Judged,
    NotStarted,
    Ready,
    Remote,
    command_of,
    given_to,
    judge,
    outcomes_seen,
    remote_of,
    unseen,
)
from runward.handlers.invocations import of_try
from runward.handlers.layouts.native import session_key
from runward.handlers.model.approvals import ApprovalWanted, ApprovedHosts
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    WAITS_FOR_HOST,
    WAITS_FOR_SLOT,
    ChainRunFinished,
    ChainRunOf,
    ChainRunStanding,
    ChainRunStatus,
    SetChainRun,
    SetStep,
    SlotOffered,
    SlotsNow,
    StepResult,
    StepsAtOnce,
    StepStanding,
    StepStatus,
    Waiter,
)
from runward.handlers.model.effects import Effect, Emit, Explain
from runward.handlers.model.fleet import Offer, OffersOf, OwnHost, PlaceOrder, Try
from runward.handlers.model.invocations import ActionOf, OpenInvocation, Play, PlayOf, StartRun
from runward.handlers.model.schedules import TimerSet
from runward.handlers.times import in_utc

FAILED_BY: Final[Mapping[StepStatus, str]] = {
    "failed": "chain.failed.step_failed",
    "timed_out": "chain.timed_out.step_timed_out",
    "aborted": "chain.aborted.step_aborted",
    "cancelled": "chain.cancelled.step_cancelled",
}
"""How a run ends when a step did not complete."""


class Reason(NamedTuple):
    """The reason of a run's status, or of a step's: a code and a sentence. The second word of a run's code is its status,
    unless only the steps of `on_failure` still run."""

    code: str
    summary: str


STARTED: Final = "chain.running.started"
WAITS: Final = "chain.running.waits"
ASKED: Final = "chain.waiting_approval.asked"
OPEN: Final[tuple[StepStatus, ...]] = ("waiting", "waiting_approval", "running")
"""The statuses of a step that is not over."""

LATE: Final = Reason("chain.timed_out.deadline", "the time limit of the whole run has passed")
ORDER_FORMAT: Final = 1
"""The form of the body of an order to another host."""
ORDER_NEEDS: Final = "0.1"
"""The oldest Runward that reads this form: an older one says so, when it declines the order."""

_MOST_HOSTS: Final = 10
"""Hosts that the reason of a step that waits for one names."""

BEGIN: Final = "begin "
"""The prefix of timers that end a step's wait for a slot."""

TURN: Final = "turn "
"""Likewise, for the wait for its run's turn. A person may be asked between the two waits, so each has its own time."""

HOST: Final = "host "
"""Likewise, for the wait for another host."""


class Position(NamedTuple):
    """A chain run in progress. Its steps are those that have begun or were skipped.

    `given` is of the event that advances it. With an `ending`, only the steps of `on_failure` are left.
    """

    run: ChainRunStanding
    chain: Chain
    given: Given
    ending: Reason | None = None
    freed: int | None = None
    """The slots that were released on the way here. 0: one that was offered. None: there is no slot to pass on."""

    def step(self, index: int) -> Step:
        """The step with this number."""
        return (*self.chain.steps, *self.chain.on_failure)[index]

    @property
    def left(self) -> tuple[Step, ...]:
        """The steps that are still to come."""
        steps = self.chain.steps if self.ending is None else self.chain.on_failure
        return tuple(step for step in steps if step.index not in self.run.steps)

    def with_step(self, standing: StepStanding) -> "Position":
        """The same, with this state of a step."""
        return self._replace(run=self.run._replace(steps={**self.run.steps, standing.step: standing}))

    def without(self, step: int) -> "Position":
        """The same, as if this step were still to come."""
        steps = {number: each for number, each in self.run.steps.items() if number != step}
        return self._replace(run=self.run._replace(steps=steps))


def run_id(key: str) -> str:
    """The id of the chain run that a firing with this key begins."""
    return f"cr_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def position_of(run: ChainRunStanding, given: Given, freed: int | None = None) -> Position:
    """The current state of a chain run, for what an event brings about."""
    # A run that won't complete keeps the reason of its end while the steps of `on_failure` still run.
    is_ending = run.reason_code not in (STARTED, WAITS, ASKED)
    ending = Reason(run.reason_code, run.reason_summary) if is_ending else None
    return Position(run, chain_of(run.definition), given, ending, freed)


def onward(position: Position) -> Asking[tuple[Effect, ...]]:
    """Advance the run: skip steps, or fail to start them, until one runs. After the last step the run ends."""
    effects: list[Effect] = []
    run, at = position.run.id, position.given.at
    # Each round decides one step that needs no session: it is skipped, or can't be started. Such a step is over, so the
    # steps that are left become fewer in each round. A failure leaves only those of `on_failure`: what is left is
    # therefore asked anew each time.
    position = _with_ending(position)
    budget = Budget()  # one for all steps: the others wait until this decision is made
    while position.left:
        step = position.left[0]
        seen = _seen(position, step)
        given, refused = given_to(position.run.trigger, seen, about(position)), unseen(step, seen)
        judged = judge(step, given, budget) if refused is None else Judged(None, refused=refused)
        if judged.reason is not None:
            skipped = StepStanding(step.index, "skipped", judged.reason)
            position = position.with_step(skipped)
            summary = f"step {step.id} is skipped: {judged.why or judged.reason}"
            effects += [
                SetStep(run, at, skipped, judged.why, judged.value),
                Explain(run, "decided", summary),
            ]
            continue
        command = judged.refused or (yield from _command(step, given, budget))
        if not isinstance(command, NotStarted):
            if step.approval is None:
                return (*effects, *(yield from begin(position, step, command, 1)))
            left = yield from let_go(run, position.freed, position.given)
            return (*effects, *ask_person(position, step), *left)
        failed = StepStanding(step.index, "failed", NOT_STARTED)
        effects += [
            SetStep(run, at, failed, command.why),
            Explain(run, "refused", f"step {step.id} is not started: {command.why}"),
        ]
        position = _with_ending(position.with_step(failed))
    # The run is over and takes no slot again, so what it released on the way goes to the next waiting step.
    left = yield from let_go(run, position.freed, position.given)
    ending = position.ending or Reason("chain.completed.ok", "all steps are over")
    return (*effects, *over(position.run, ending, at), *left)


def ended(
    position: Position, standing: StepStanding, status: StepStatus, reason: Reason
) -> Asking[tuple[Effect, ...]]:
    """End a step that has not begun, and continue from it."""
    standing = standing._replace(status=status, reason=reason.code)
    end = SetStep(position.run.id, position.given.at, standing, reason.summary, value=True)
    return (end, *(yield from onward(position.with_step(standing))))


def over(run: ChainRunStanding, ending: Reason, at: float) -> tuple[Effect, ...]:
    """End a chain run, and have that announced."""
    status: ChainRunStatus = ending.code.split(".")[1]  # type: ignore[assignment] # the codes of `FAILED_BY`
    end = moved(run.id, status, ending, max(run.steps, default=0), at)
    return end, Emit(ChainRunFinished(run.id, run.chain, at, status, ending.code))


def moved(run: str, status: ChainRunStatus, reason: Reason, step: int, at: float) -> SetChainRun:
    """Move a chain run on to a step."""
    return SetChainRun(
        run=run,
        at=at,
        status=status,
        reason_code=reason.code,
        reason_summary=reason.summary,
        current_step=step,
    )


def _with_ending(position: Position) -> Position:
    """If a step did not complete, or the time is over, only the steps of `on_failure` are left."""
    if position.ending is not None:
        return position
    is_late = position.run.deadline is not None and position.given.at >= position.run.deadline
    for step in position.chain.steps:
        standing = position.run.steps.get(step.index)
        if standing is None or standing.status in ("completed", "skipped", *OPEN) or step.continue_on_failure:
            continue
        if is_late and standing.status == "timed_out":
            return position._replace(ending=LATE)
        summary = f"step {step.id} ended {standing.status} ({standing.reason})"
        return position._replace(ending=Reason(FAILED_BY[standing.status], summary))
    return position._replace(ending=LATE) if is_late and position.left else position


class Startable(NamedTuple):
    """A command, and the playbook or action that it belongs to."""

    ready: Ready
    play: Play


def command_at(position: Position, index: int) -> Asking[Startable | Remote | NotStarted]:
    """What the step with this number would start now, given the steps before it."""
    step = position.step(index)
    seen = _seen(position.without(index), step)
    given = given_to(position.run.trigger, seen, about(position))
    return unseen(step, seen) or (yield from _command(step, given, Budget()))


def _command(
    step: Step, given: Mapping[str, object], budget: Budget
) -> Asking[Startable | Remote | NotStarted]:
    if step.host is not None:
        if (yield from ask(OwnHost())) is None:
            return NotStarted(
                "it is for another host, and this one is in no fleet: `runward fleet join` says how"
            )
        return remote_of(step, given, budget)
    play = yield from (ask(PlayOf(step.skill)) if step.skill is not None else ask(ActionOf(step.name)))
    ready = command_of(step, play, given, budget)
    return ready if isinstance(ready, NotStarted) else Startable(ready, play)


def resume(position: Position, standing: StepStanding) -> Asking[tuple[Effect, ...]]:
    """Begin the try of a step that waits, with the command that it has now. If there is none any more, the step fails."""
    command = yield from command_at(position, standing.step)
    if isinstance(command, NotStarted):
        return (yield from ended(position, standing, "failed", Reason(NOT_STARTED, command.why)))
    return (yield from begin(position, position.step(standing.step), command, standing.attempt))


def begin(
    position: Position, step: Step, command: Startable | Remote, attempt: int
) -> Asking[tuple[Effect, ...]]:
    """Have a try of the step started, or let it wait for a slot or for another host. It asks nothing after this."""
    if isinstance(command, Remote):
        approved = None
        if step.approval is not None:
            approved = yield from ask(ApprovedHosts(position.run.id, step.index))
        offers = yield from ask(OffersOf("action" if step.skill is None else "skill", step.name))
        ordered = _order(position, step, command, attempt, approved, offers)
        return (*ordered, *(yield from let_go(position.run.id, position.freed, position.given)))
    # This question comes last. Chain runs are decided side by side, and the decider folds what one lane decided into
    # the answer for the next. A question after this one would let two lanes take the same slot.
    run = position.run
    here = yield from room(run.id, position.freed)
    # Steps of runs that were fired earlier come first, also if they wait and this one could begin at once.
    if here.is_for(Waiter(run.created_at, run.id, step.index, attempt)):
        return _start(position, step, command, attempt)
    offered = offer(here, position.given)
    standing = run.steps.get(step.index)
    if standing is not None and standing.reason == WAITS_FOR_SLOT:
        return offered
    return (*_wait(position, step, attempt), *offered)


def _wait(position: Position, step: Step, attempt: int) -> tuple[Effect, ...]:
    """Let a try of the step wait for a slot, at most as long as it may."""
    run, at = position.run.id, position.given.at
    reason = f"step {step.id} waits for a slot: the maximum number of steps is running (steps_at_once)"
    # The time of the first step is counted from when its run began to wait for its turn, and that timer still runs.
    is_timed = position.run.reason_code == WAITS and step.index == position.chain.steps[0].index
    waits = StepStanding(step.index, "waiting", WAITS_FOR_SLOT, attempt=attempt)
    return (
        SetStep(run, at, waits, reason, value=True, fired_at=position.run.created_at),
        moved(run, "running", position.ending or Reason(STARTED, reason), step.index, at),
        Explain(run, "decided", reason),
        *(() if is_timed else begin_within(run, step, BEGIN, attempt, at)),
    )


def wait_for_turn(position: Position, others: Sequence[str]) -> tuple[Effect, ...]:
    """Let the first step wait until other runs are over, at most as long as it may."""
    run, at, step = position.run.id, position.given.at, position.chain.steps[0]
    reason = f"it waits until {', '.join(others[:3])} is over"
    return (
        SetStep(run, at, StepStanding(step.index, "waiting", None), reason),
        moved(run, "running", Reason(WAITS, reason), step.index, at),
        Explain(run, "decided", reason),
        *begin_within(run, step, TURN, 1, at),
    )


def begin_within(run: str, step: Step, word: str, attempt: int, at: float) -> tuple[Effect, ...]:
    """Set a timer for a waiting step: it must begin before then. `word` says what it waits for."""
    if step.start_within is None:
        return ()
    if word == HOST:
        return (host_timer(run, step.index, attempt, at, at + step.start_within),)
    return (Emit(TimerSet(run, f"{word}{step.index} {attempt}", at, at + step.start_within)),)


def host_timer(run: str, step: int, attempt: int, at: float, due: float) -> Emit:
    """A timer of the wait for another host. Its name has its time, as it may be set again."""
    return Emit(TimerSet(run, f"{HOST}{step} {attempt} {due!r}", at, due))


def _start(position: Position, step: Step, command: Startable, attempt: int) -> tuple[Effect, ...]:
    play, playbook = command.play, command.play.playbook
    assert playbook is not None, "its command is known"
    run, at = position.run.id, position.given.at
    name = f"{run}-{step.index}-{attempt}"
    session = session_key(play.root_name, name)
    contract = resolve_contract(playbook=playbook.artifacts, agent=play.defaults)
    start = StartRun(
        # The secret keeps an earlier step, which knows the run's id, from forging a run directory that says that this
        # step has begun.
        key=f"{run}/{step.index}/{attempt}/{position.given.event_hash[:16]}",
        session=session,
        root=play.root_path,
        name=name,
        command=command.ready.argv,
        cwd=command.ready.cwd or f"{play.root_path}/{name}/artifacts",
        environment=command.ready.environment,
        playbook=step.skill,
        agent=play.agent,
        contract=None if contract is None else contract_to_json(contract),
        timeout=_timeout(position, step.timeout or playbook.timeout),
        grace=playbook.grace if step.grace is None else step.grace,
        stale_after=step.stale_after,
        worktree=command.ready.worktree,
        metadata=(
            ("chain_run_id", run),
            ("step_index", step.index),
            ("try", attempt),
            ("with", dict(command.ready.values)),
        ),
        kind="step",
        invocation_id=of_try(run, step.index, attempt),
    )
    invocation = OpenInvocation(
        id=of_try(run, step.index, attempt),
        skill=step.name,
        at=at,
        session_key=session,
        chain_run=run,
        step=step.index,
        attempt=attempt,
        metadata={
            "kind": "action" if step.skill is None else "skill",
            "step": step.id,
            "with": dict(command.ready.values),
        },
    )
    ending = position.ending or Reason(STARTED, f"step {step.id} runs")
    known: dict[str, JsonValue] = {"command": list(command.ready.argv), "unused": list(command.ready.unused)}
    if command.ready.worktree is not None:
        known["worktree"] = dict(zip(("repo", "ref"), command.ready.worktree, strict=True))
    runs = StepStanding(step.index, "running", None, session, attempt)
    return (
        start,
        invocation,
        SetStep(run, at, runs, None, value=True),
        moved(run, "running", ending, step.index, at),
        Explain(run, "decided", f"step {step.id} is started as {name}", known),
    )


def _who_could(remote: Remote, offers: Sequence[Offer]) -> str:
    """The hosts that could run the step, as far as is known here, and when each was last seen."""
    could = [each for each in offers if each.is_of(remote.host)]
    if not could:
        return "no host that is known here accepts it from this one"
    seen = [
        f"{each.host} (never seen)"
        if each.last_seen is None
        else f"{each.host} (last seen {in_utc(round(each.last_seen))})"
        for each in could[:_MOST_HOSTS]
    ]
    more = f", and {len(could) - _MOST_HOSTS} more" if len(could) > _MOST_HOSTS else ""
    return f"{', '.join(seen)}{more} could run it"


def _order(
    position: Position,
    step: Step,
    remote: Remote,
    attempt: int,
    approved: Mapping[str, str] | None,
    offers: Sequence[Offer],
) -> tuple[Effect, ...]:
    """Have a try of the step ordered from another host. Only names and values travel, never a command.

    If a person was asked, the hash travels of what each host may start.
    """
    run, at, rendered = position.run.id, position.given.at, remote.rendered
    is_named = isinstance(remote.host, str)
    waits = f"step {step.id} waits for {'the host ' if is_named else ''}{remote.host}; {_who_could(remote, offers)}"
    body: dict[str, JsonValue] = {
        "format": ORDER_FORMAT,
        "needs": ORDER_NEEDS,
        "kind": "action" if step.skill is None else "skill",
        "name": step.name,
        "with": dict(rendered.values),
        "env": dict(rendered.environment),
        "cwd": rendered.cwd,
        "timeout": _timeout(position, step.timeout),
        "grace": step.grace,
        "stale_after": step.stale_after,
        "chain": position.chain.name,
        "run": run,
        "step": step.id,
        "attempt": attempt,
        "depth": position.run.depth,
        # As for a step of this host: what an earlier step knows is not enough to forge a run that says it is this one.
        "secret": position.given.event_hash[:16],
    }
    if approved is not None:
        body["approved"] = dict(approved)
    host, labels = (remote.host, ()) if isinstance(remote.host, str) else (None, remote.host.labels)
    order = PlaceOrder(Try(run, step.index, attempt), at, host, step.name, body, step.start_within, labels)
    return (
        order,
        SetStep(
            run, at, StepStanding(step.index, "waiting", WAITS_FOR_HOST, attempt=attempt), waits, value=True
        ),
        moved(run, "running", position.ending or Reason(STARTED, waits), step.index, at),
        Explain(run, "decided", waits, {"with": dict(rendered.values)}),
        *begin_within(run, step, HOST, attempt, at),
    )


def ask_person(position: Position, step: Step, attempt: int = 1) -> tuple[Effect, ...]:
    """Have a person asked before a try of the step begins."""
    run, given = position.run.id, position.given
    asked = Reason(ASKED, f"step {step.id} waits for a person")
    return (
        SetStep(
            run,
            given.at,
            StepStanding(step.index, "waiting_approval", None, attempt=attempt),
            None,
            value=True,
        ),
        moved(run, "waiting_approval", asked, step.index, given.at),
        Emit(ApprovalWanted(run, step.index, given.event_hash[:16], given.at)),
    )


def _timeout(position: Position, own: float | None) -> float | None:
    """The step's own timeout, but at most what is left of the run's time. Steps after a failure have their own time."""
    deadline = position.run.deadline
    if deadline is None or position.ending is not None:
        return own
    left = max(deadline - position.given.at, 0.001)
    return left if own is None else min(own, left)


def about(position: Position) -> SeenChain:
    """What expressions see of the run itself."""
    seen: SeenChain = {
        "name": position.chain.name,
        "run_id": position.run.id,
        "event": position.chain.trigger.event,
        "event_id": None,
        "fired_at": in_utc(position.run.created_at),
        "due_at": None,
        "events": [],
    }
    # Runs of an older Runward keep nothing about their cause.
    if isinstance(position.run.cause, dict):
        seen.update(position.run.cause)  # type: ignore[typeddict-item] # `open_run` says what is in it
    return seen


def _seen(position: Position, step: Step) -> list[SeenStep]:
    """What expressions see of the steps before this one. Steps that were never reached say so."""
    steps = (*position.chain.steps, *position.chain.on_failure)
    return [_shown(each, position.run.steps.get(each.index)) for each in steps[: step.index]]


def _shown(step: Step, standing: StepStanding | None) -> SeenStep:
    outcome = None if standing is None else standing.outcome
    result = StepResult() if standing is None else standing.result
    return {
        "id": step.id,
        "name": step.name,
        "status": "pending" if standing is None else standing.status,
        "skipped": standing is not None and standing.status == "skipped",
        "reason": None if standing is None else standing.reason,
        "outcome": outcome,
        "outcomes": outcomes_seen(result.earlier, outcome),
        "delivery": result.delivery,
        "verification": result.verification,
        "exit_code": result.exit_code,
        "session_id": None
        if standing is None
        else (standing.session_key or "").rpartition("/")[2] or result.session,
        "host": result.host,
        "artifacts": result.artifacts,
        "try": 0
        if standing is None or (standing.session_key is None and step.host is None)
        else standing.attempt,
    }


def waiting_for_person(run: str, step: int) -> Asking[tuple[ChainRunStanding, StepStanding] | None]:
    """The chain run and its step, if they wait for a person's decision."""
    standing = yield from ask(ChainRunOf(run))
    of_step = None if standing is None else standing.steps.get(step)
    if standing is None or of_step is None:
        return None
    return (standing, of_step) if standing.status == of_step.status == "waiting_approval" else None


def is_late(run: ChainRunStanding, at: float) -> bool:
    """Whether its time has passed, and it has not begun to end."""
    is_on_its_way = run.reason_code in (STARTED, WAITS, ASKED)
    return is_on_its_way and run.deadline is not None and at >= run.deadline


def end(run: ChainRunStanding, given: Given, freed: int | None = None) -> Asking[tuple[Effect, ...]]:
    """End the step that waits."""
    # Only what waits, and what another host runs, is ended here. A running step of this host has a launcher, which
    # enforces the deadline itself.
    waits = [
        each
        for each in run.steps.values()
        if each.status in ("waiting", "waiting_approval") or is_elsewhere(each)
    ]
    position = position_of(run, given, freed)
    if not waits or position.ending is not None:
        return ()
    effects: list[Effect] = [Explain(run.id, "decided", LATE.summary)]
    for each in waits:
        over, why = each, LATE.summary
        if is_elsewhere(each):
            over, known = yield from ends_in_doubt(position.step(each.step), each)
            why = f"{why}; {known}"
        over = over._replace(status="timed_out", reason="run.timed_out.deadline")
        effects += [SetStep(run.id, given.at, over, why, value=True), *cancel_order(run.id, each, given.at)]
        position = position.with_step(over)
    return (*effects, *(yield from onward(position._replace(ending=LATE))))


class Room(NamedTuple):
    """How many slots are free, and who waits for one, in order."""

    free: int
    waiters: tuple[Waiter, ...]

    def is_for(self, waiter: Waiter) -> bool:
        """Whether a slot is left for this step after those that come before it."""
        return sum(each < waiter for each in self.waiters) < self.free


def room(run: str, freed: int | None) -> Asking[Room]:
    """What is free for a run, or for others once it has released `freed` slots. It asks nothing after this."""
    limit = yield from ask(StepsAtOnce())
    slots = yield from ask(SlotsNow())
    others = tuple(each for each in slots.waiters if each.run != run)
    # A step that is over is still among the running ones: that it ended is decided together with this, and not folded
    # yet.
    return Room(limit - len(slots.running) + (freed or 0), others)


def offer(room: Room, given: Given) -> tuple[Effect, ...]:
    """Offer a free slot, if anybody waits."""
    number = min(room.free, len(room.waiters))
    if number <= 0:
        return ()
    # If several steps end at the same time, each offers its own slot: the first one goes to the first waiter, and so
    # on. If each took the first waiter, the other slots would stay unused.
    waiter, by = room.waiters[number - 1], given.event_hash[:16]
    return (Emit(SlotOffered(waiter.run, waiter.step, waiter.attempt, given.at, by)),)


def let_go(run: str, freed: int | None, given: Given) -> Asking[tuple[Effect, ...]]:
    """Offer what a run releases (None: nothing) and does not take again. It asks nothing after this."""
    return () if freed is None else offer((yield from room(run, freed)), given)
