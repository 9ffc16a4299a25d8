"""How a chain run advances: from its current state to its next step, or to its end."""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.chain import Chain, chain_of
from runward.config.contract import contract_to_json, resolve_contract
from runward.config.counted_values import Budget
from runward.config.json_value import JsonValue
from runward.config.seen import SeenChain, SeenStep
from runward.config.step import NOT_STARTED, Step
from runward.handlers.chains.stepping import (
    Judged,
    NotStarted,
    Ready,
    command_of,
    given_to,
    judge,
    outcomes_seen,
    unseen,
)
from runward.handlers.invocations import of_try
from runward.handlers.layouts.native import session_key
from runward.handlers.model.approvals import ApprovalWanted
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import (
    WAITS_FOR_SLOT,
    ChainRunFinished,
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


class Ending(NamedTuple):
    """Why a run will not complete: the code, whose second word is the status that it ends with, and a sentence."""

    code: str
    summary: str


STARTED: Final = "chain.running.started"
WAITS: Final = "chain.running.waits"
ASKED: Final = "chain.waiting_approval.asked"
OPEN: Final[tuple[StepStatus, ...]] = ("waiting", "waiting_approval", "running")
"""The statuses of a step that is not over."""

LATE: Final = Ending("chain.timed_out.deadline", "the time limit of the whole run has passed")
BEGIN: Final = "begin "
"""The prefix of timers that end a step's wait for a slot."""

TURN: Final = "turn "
"""Likewise, for the wait for its run's turn. A person may be asked between the two waits, so each has its own time."""


class Position(NamedTuple):
    """A chain run in progress: the states of the steps that have begun or were skipped.

    `secret` is the hash of the event that advances it. It is in the keys of starts, so that no earlier step can forge
    a run directory that says that a later one has begun. With an `ending`, only the steps of `on_failure` are left.
    """

    run: str
    chain: Chain
    trigger: Mapping[str, JsonValue]
    fired_by: str
    secret: str
    steps: Mapping[int, StepStanding]
    deadline: float | None
    ending: Ending | None = None
    fired_at: float = 0.0
    cause: JsonValue = None
    freed: int | None = None
    """The slots that were released on the way here. 0: one that was offered. None: there is no slot to pass on."""
    has_waited: bool = False
    """Whether the first step waited for the run's turn: its time to begin is counted from then."""

    def step(self, index: int) -> Step:
        """The step with this number."""
        return (*self.chain.steps, *self.chain.on_failure)[index]

    @property
    def left(self) -> tuple[Step, ...]:
        """The steps that are still to come."""
        steps = self.chain.steps if self.ending is None else self.chain.on_failure
        return tuple(step for step in steps if step.index not in self.steps)


def run_id(key: str) -> str:
    """The id of the chain run that a firing with this key begins."""
    return f"cr_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def position_of(run: ChainRunStanding, secret: str) -> Position:
    """The current state of a chain run, for what the event with the hash `secret` brings about."""
    # A run that won't complete keeps the reason of its end while the steps of `on_failure` still run.
    is_ending = run.reason_code not in (STARTED, WAITS, ASKED)
    ending = Ending(run.reason_code, run.reason_summary) if is_ending else None
    chain = chain_of(run.definition)
    return Position(
        run=run.id,
        chain=chain,
        trigger=run.trigger,
        fired_by=run.fired_by,
        secret=secret,
        steps=run.steps,
        deadline=run.deadline,
        ending=ending,
        fired_at=run.created_at,
        cause=run.cause,
        has_waited=run.reason_code == WAITS,
    )


def without(position: Position, step: int) -> Position:
    """The same, as if this step were still to come."""
    return position._replace(steps={n: each for n, each in position.steps.items() if n != step})


def onward(position: Position, at: float) -> Asking[tuple[Effect, ...]]:
    """Advance the run: skip steps, or fail to start them, until one runs. After the last step the run ends."""
    effects: list[Effect] = []
    # Each round decides one step that needs no session: it is skipped, or can't be started. Such a step is over, so the
    # steps that are left become fewer in each round. A failure leaves only those of `on_failure`: what is left is
    # therefore asked anew each time.
    position = _with_ending(position, at)
    budget = Budget()  # one for all steps: the others wait until this decision is made
    while position.left:
        step = position.left[0]
        seen = _seen(position, step)
        given, refused = given_to(position.trigger, seen, about(position)), unseen(step, seen)
        judged = judge(step, given, budget) if refused is None else Judged(None, refused=refused)
        if judged.reason is not None:
            position = _with(position, step, "skipped", judged.reason)
            effects += [
                SetStep(
                    run=position.run,
                    step=step.index,
                    at=at,
                    status="skipped",
                    reason_code=judged.reason,
                    reason_summary=judged.why,
                    value=judged.value,
                    attempt=1,
                ),
                Explain(position.run, "decided", f"step {step.id} is skipped: {judged.why or judged.reason}"),
            ]
            continue
        command = judged.refused or (yield from _command(step, given, budget))
        if not isinstance(command, NotStarted):
            if step.approval is None:
                return (*effects, *(yield from begin(position, step, command, 1, at)))
            left = yield from let_go(position.run, position.freed, at, position.secret[:16])
            return (*effects, *_ask(position, step, at), *left)
        effects += [
            SetStep(
                run=position.run,
                step=step.index,
                at=at,
                status="failed",
                reason_code=NOT_STARTED,
                reason_summary=command.why,
                attempt=1,
            ),
            Explain(position.run, "refused", f"step {step.id} is not started: {command.why}"),
        ]
        position = _with_ending(_with(position, step, "failed", NOT_STARTED), at)
    code, summary = position.ending or Ending("chain.completed.ok", "all steps are over")
    status: ChainRunStatus = code.split(".")[1]  # type: ignore[assignment] # the codes of `FAILED_BY`
    last = max(position.steps, default=0)
    # The run is over and takes no slot again, so what it released on the way goes to the next waiting step.
    left = yield from let_go(position.run, position.freed, at, position.secret[:16])
    return (
        *effects,
        *over(
            run=position.run,
            chain=position.chain.name,
            at=at,
            status=status,
            code=code,
            summary=summary,
            last=last,
        ),
        *left,
    )


def ended(
    position: Position, standing: StepStanding, status: StepStatus, code: str, why: str, at: float
) -> Asking[tuple[Effect, ...]]:
    """End a step that has not begun, and continue from it."""
    over = standing._replace(status=status, reason=code)
    end = SetStep(
        run=position.run,
        step=standing.step,
        at=at,
        status=status,
        reason_code=code,
        reason_summary=why,
        value=True,
        session_key=None,
        attempt=standing.attempt,
    )
    followed = yield from onward(
        position._replace(steps={**position.steps, standing.step: over}, has_waited=False), at
    )
    return (end, *followed)


def over(
    run: str, chain: str, at: float, status: ChainRunStatus, code: str, summary: str, last: int
) -> tuple[Effect, ...]:
    """End a chain run, and have that announced. `last` is the number of the step that it came to."""
    return SetChainRun(
        run=run, at=at, status=status, reason_code=code, reason_summary=summary, current_step=last
    ), Emit(ChainRunFinished(run, chain, at, status, code))


def _with(position: Position, step: Step, status: StepStatus, reason: str) -> Position:
    standing = StepStanding(
        step=step.index, status=status, reason=reason, session_key=None, attempt=1, outcome=None
    )
    return position._replace(steps={**position.steps, step.index: standing})


def _with_ending(position: Position, at: float) -> Position:
    """If a step did not complete, or the time is over, only the steps of `on_failure` are left."""
    if position.ending is not None:
        return position
    is_late = position.deadline is not None and at >= position.deadline
    for step in position.chain.steps:
        standing = position.steps.get(step.index)
        if standing is None or standing.status in ("completed", "skipped", *OPEN) or step.continue_on_failure:
            continue
        if is_late and standing.status == "timed_out":
            return position._replace(ending=LATE)
        summary = f"step {step.id} ended {standing.status} ({standing.reason})"
        return position._replace(ending=Ending(FAILED_BY[standing.status], summary))
    return position._replace(ending=LATE) if is_late and position.left else position


class Startable(NamedTuple):
    """A command, and the playbook or action that it belongs to."""

    ready: Ready
    play: Play

    @property
    def argv(self) -> tuple[str, ...]:
        return self.ready.argv

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        return self.ready.environment

    @property
    def cwd(self) -> str | None:
        return self.ready.cwd


def command_at(position: Position, index: int) -> Asking[Startable | NotStarted]:
    """What the step with this number would start now, given the steps before it."""
    step = position.step(index)
    seen = _seen(without(position, index), step)
    return unseen(step, seen) or (
        yield from _command(step, given_to(position.trigger, seen, about(position)), Budget())
    )


def _command(step: Step, given: Mapping[str, object], budget: Budget) -> Asking[Startable | NotStarted]:
    play = yield from (ask(PlayOf(step.skill)) if step.skill is not None else ask(ActionOf(step.name)))
    ready = command_of(step, play, given, budget)
    return ready if isinstance(ready, NotStarted) else Startable(ready, play)


def begin(
    position: Position, step: Step, command: Startable, attempt: int, at: float
) -> Asking[tuple[Effect, ...]]:
    """Have a try of the step started, or let it wait for a slot. It asks nothing after this."""
    # This question comes last. Chain runs are decided side by side, and the decider folds what one lane decided into
    # the answer for the next. A question after this one would let two lanes take the same slot.
    here = yield from room(position.run, position.freed)
    # Steps of runs that were fired earlier come first, also if they wait and this one could begin at once.
    if here.is_for(Waiter(position.fired_at, position.run, step.index, attempt)):
        return _start(position, step, command, attempt, at)
    offered = offer(here, at, position.secret[:16])
    standing = position.steps.get(step.index)
    if standing is not None and standing.reason == WAITS_FOR_SLOT:
        return offered
    return (*_wait(position, step, attempt, at), *offered)


def _wait(position: Position, step: Step, attempt: int, at: float) -> tuple[Effect, ...]:
    """Let a try of the step wait for a slot, at most as long as it may."""
    reason = f"step {step.id} waits for a slot: the maximum number of steps is running (steps_at_once)"
    code, summary = position.ending or Ending(STARTED, reason)
    # The time of the first step is counted from when its run began to wait for its turn, and that timer still runs.
    is_timed = position.has_waited and step.index == position.chain.steps[0].index
    waits = SetStep(
        run=position.run,
        step=step.index,
        at=at,
        status="waiting",
        reason_code=WAITS_FOR_SLOT,
        reason_summary=reason,
        value=True,
        session_key=None,
        attempt=attempt,
        fired_at=position.fired_at,
    )
    return (
        waits,
        SetChainRun(
            run=position.run,
            at=at,
            status="running",
            reason_code=code,
            reason_summary=summary,
            current_step=step.index,
        ),
        Explain(position.run, "decided", reason),
        *(() if is_timed else begin_within(position.run, step, BEGIN, attempt, at)),
    )


def begin_within(run: str, step: Step, word: str, attempt: int, at: float) -> tuple[Effect, ...]:
    """Set a timer for a waiting step: it must begin before then. `word` says what it waits for."""
    if step.start_within is None:
        return ()
    return (Emit(TimerSet(run, f"{word}{step.index} {attempt}", at, at + step.start_within)),)


def _start(position: Position, step: Step, command: Startable, attempt: int, at: float) -> tuple[Effect, ...]:
    play, playbook = command.play, command.play.playbook
    assert playbook is not None, "its command is known"
    name = f"{position.run}-{step.index}-{attempt}"
    session = session_key(play.root_name, name)
    contract = resolve_contract(playbook=playbook.artifacts, agent=play.defaults)
    start = StartRun(
        # The secret keeps an earlier step, which knows the run's id, from forging a run directory that says that this
        # step has begun.
        key=f"{position.run}/{step.index}/{attempt}/{position.secret[:16]}",
        session=session,
        root=play.root_path,
        name=name,
        command=command.argv,
        cwd=command.cwd or f"{play.root_path}/{name}/artifacts",
        environment=command.environment,
        playbook=step.skill,
        agent=play.agent,
        contract=None if contract is None else contract_to_json(contract),
        timeout=_timeout(position, step.timeout or playbook.timeout, at),
        grace=playbook.grace if step.grace is None else step.grace,
        stale_after=step.stale_after,
        worktree=command.ready.worktree,
        metadata=(
            ("chain_run_id", position.run),
            ("step_index", step.index),
            ("try", attempt),
            ("with", dict(command.ready.values)),
        ),
        kind="step",
        invocation_id=of_try(position.run, step.index, attempt),
    )
    invocation = OpenInvocation(
        id=of_try(position.run, step.index, attempt),
        skill=step.name,
        at=at,
        session_key=session,
        chain_run=position.run,
        step=step.index,
        attempt=attempt,
        metadata={
            "kind": "action" if step.skill is None else "skill",
            "step": step.id,
            "with": dict(command.ready.values),
        },
    )
    ending = position.ending or Ending(STARTED, f"step {step.id} runs")
    return (
        start,
        invocation,
        SetStep(
            run=position.run,
            step=step.index,
            at=at,
            status="running",
            reason_code=None,
            reason_summary=None,
            value=True,
            session_key=session,
            attempt=attempt,
        ),
        SetChainRun(
            run=position.run,
            at=at,
            status="running",
            reason_code=ending.code,
            reason_summary=ending.summary,
            current_step=step.index,
        ),
        Explain(
            position.run,
            "decided",
            f"step {step.id} is started as {name}",
            {
                "command": list(command.argv),
                "unused": list(command.ready.unused),
                **_checked_out(command.ready),
            },
        ),
    )


def _checked_out(ready: Ready) -> dict[str, JsonValue]:
    return (
        {}
        if ready.worktree is None
        else {"worktree": dict(zip(("repo", "ref"), ready.worktree, strict=True))}
    )


def _ask(position: Position, step: Step, at: float) -> tuple[Effect, ...]:
    """Have a person asked before the step begins."""
    return (
        SetStep(
            run=position.run,
            step=step.index,
            at=at,
            status="waiting_approval",
            reason_code=None,
            reason_summary=None,
            value=True,
            session_key=None,
            attempt=1,
        ),
        SetChainRun(
            run=position.run,
            at=at,
            status="waiting_approval",
            reason_code=ASKED,
            reason_summary=f"step {step.id} waits for a person",
            current_step=step.index,
        ),
        Emit(ApprovalWanted(position.run, step.index, position.secret[:16], at)),
    )


def _timeout(position: Position, own: float | None, at: float) -> float | None:
    """The step's own timeout, but at most what is left of the run's time. Steps after a failure have their own time."""
    if position.deadline is None or position.ending is not None:
        return own
    left = max(position.deadline - at, 0.001)
    return left if own is None else min(own, left)


def about(position: Position) -> SeenChain:
    """What expressions see of the run itself. Runs of an older Runward keep nothing about their cause."""
    seen: SeenChain = {
        "name": position.chain.name,
        "run_id": position.run,
        "event": position.chain.trigger.event,
        "event_id": None,
        "fired_at": in_utc(position.fired_at),
        "due_at": None,
        "events": [],
    }
    # Runs of an older Runward keep nothing about their cause.
    if isinstance(position.cause, dict):
        seen.update(position.cause)  # type: ignore[typeddict-item] # `fire.decide` says what is in it
    return seen


def _seen(position: Position, step: Step) -> list[SeenStep]:
    """What expressions see of the steps before this one. Steps that were never reached say so."""
    steps = (*position.chain.steps, *position.chain.on_failure)
    return [_shown(each, position.steps.get(each.index)) for each in steps[: step.index]]


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
        "session_id": None if standing is None else (standing.session_key or "").rpartition("/")[2] or None,
        "artifacts": result.artifacts,
        "try": 0 if standing is None or standing.session_key is None else standing.attempt,
    }


def is_late(run: ChainRunStanding, at: float) -> bool:
    """Whether its time has passed, and it has not begun to end."""
    is_on_its_way = run.reason_code in (STARTED, WAITS, ASKED)
    return is_on_its_way and run.deadline is not None and at >= run.deadline


def end(run: ChainRunStanding, given: Given, freed: int | None = None) -> Asking[tuple[Effect, ...]]:
    """End the step that waits."""
    # Only what waits is ended here. A running step has a launcher, which enforces the deadline itself.
    waits = [each for each in run.steps.values() if each.status in ("waiting", "waiting_approval")]
    position = position_of(run, given.event_hash)
    if not waits or position.ending is not None:
        return ()
    effects: list[Effect] = [Explain(run.id, "decided", LATE.summary)]
    for each in waits:
        code = "run.timed_out.deadline"
        effects.append(
            SetStep(
                run=run.id,
                step=each.step,
                at=given.at,
                status="timed_out",
                reason_code=code,
                reason_summary=LATE.summary,
                value=True,
                session_key=None,
                attempt=each.attempt,
            )
        )
        over = each._replace(status="timed_out", reason=code)
        position = position._replace(steps={**position.steps, each.step: over})
    followed = yield from onward(position._replace(ending=LATE, freed=freed), given.at)
    return (*effects, *followed)


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


def offer(room: Room, at: float, by: str) -> tuple[Effect, ...]:
    """Offer a free slot, if anybody waits."""
    number = min(room.free, len(room.waiters))
    if number <= 0:
        return ()
    # If several steps end at the same time, each offers its own slot: the first one goes to the first waiter, and so
    # on. If each took the first waiter, the other slots would stay unused.
    waiter = room.waiters[number - 1]
    return (Emit(SlotOffered(waiter.run, waiter.step, waiter.attempt, at, by)),)


def let_go(run: str, freed: int | None, at: float, by: str) -> Asking[tuple[Effect, ...]]:
    """Offer what a run releases (None: nothing) and does not take again. It asks nothing after this."""
    return () if freed is None else offer((yield from room(run, freed)), at, by)
