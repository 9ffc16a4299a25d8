"""What a chain run waits for has come: the verdict on its step, a timer, a decision, a slot. It continues, or it ends.

A person may also end it.
"""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.step import NOT_STARTED, Step
from runward.handlers.chains import advancing
from runward.handlers.chains.advancing import (
    BEGIN,
    FAILED_BY,
    HOST,
    TURN,
    WAITS,
    Position,
    Reason,
    begin,
    command_at,
    ended,
    host_timer,
    let_go,
    onward,
    over,
    position_of,
    resume,
    waiting_for_person,
)
from runward.handlers.chains.elsewhere import (
    cancel_order,
    ends_in_doubt,
    is_elsewhere,
    may_still_be_withdrawn,
)
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.invocations import completed
from runward.handlers.model.approvals import ApprovalDecided
from runward.handlers.model.asking import Asking, Given, TryLater, ask
from runward.handlers.model.chains import (
    WAITS_FOR_SLOT,
    ChainRunCancelRequested,
    ChainRunOf,
    ChainRunStanding,
    LaneWaits,
    LeftBy,
    LeftBySession,
    SetStep,
    SlotOffered,
    StepResult,
    StepStanding,
    StepStatus,
    chain_run_of,
)
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.model.invocations import (
    InvocationOf,
    RemoveWorktree,
    StartedEarlier,
    StartFailed,
    WithdrawStart,
)
from runward.handlers.model.outcomes import lane
from runward.handlers.model.requests import SessionCancelRequested
from runward.handlers.model.schedules import TimerRang, TimerSet
from runward.handlers.model.sessions import AttemptStarted, SessionFinished, SessionOf


def advance_after_step(event: SessionFinished | StartFailed | StartedEarlier, given: Given) -> Deciding:
    """A step's run is judged, or can never begin: the chain run continues, or ends as the step did.

    A session that no chain started changes nothing.
    """
    name = chain_run_of(event.session_key)
    run = None if name is None else (yield from ask(ChainRunOf(name)))
    if run is None:
        return ()
    current = next((each for each in run.steps.values() if each.session_key == event.session_key), None)
    verdict = yield from verdict_on(event)
    if current is None or verdict is None or verdict.status == "running":
        return ()
    position = position_of(run, given, freed=1)
    # The worktree goes, or is kept, also if the step is over for another reason already.
    cleared = _cleared(position, current, event.session_key, verdict.status != "completed")
    if current.status != "running":
        return cleared
    status, code, why, _ = verdict
    outcome: JsonValue = None
    result = StepResult()
    explained: tuple[Effect, ...] = ()
    if isinstance(event, StartFailed):
        explained = (Explain(run.id, "refused", f"step {current.step} is not started: {why}"),)
    else:
        left = yield from all_left_by(event.session_key, verdict.attempt)
        outcome, result = None if left.outcome is None else dict(left.outcome), left.result
        why = left.why if status != "completed" else None
    over = current._replace(status=status, reason=code, outcome=outcome, result=result)
    effects = (SetStep(run.id, given.at, over, why, value=True), *explained, *cleared)
    # The run ended while this step's processes still lived. Nothing follows from the step, but it kept its slot until
    # now.
    if run.status != "running":
        return (*effects, *(yield from let_go(run.id, 1, given)))
    # A step that waits for its next try holds no slot.
    again = again_after(position, over)
    if again:
        return (*effects, *again, *(yield from let_go(run.id, 1, given)))
    return (*effects, *(yield from onward(position.with_step(over))))


def all_left_by(session_key: str, attempt: int) -> Asking[LeftBySession]:
    """What the session of a step left. Raises `TryLater` while outcomes of it are still on their way."""
    # The expressions of later steps see all outcomes of this one, so those come first.
    if (yield from ask(LaneWaits(lane(session_key)))):
        raise TryLater("an artifact that was added to the session of its step is not stored yet")
    return (yield from ask(LeftBy(session_key, attempt)))


class Verdict(NamedTuple):
    """How the run of a step ended."""

    status: StepStatus
    code: str
    why: str | None
    attempt: int = 1


def verdict_on(event: SessionFinished | StartFailed | StartedEarlier) -> Asking[Verdict | None]:
    """How the run of the step ended; None if it is not known yet."""
    if isinstance(event, StartFailed):
        return Verdict("failed", NOT_STARTED, event.why)
    if isinstance(event, SessionFinished):
        return Verdict(event.status, event.reason_code, None, event.attempt)
    session = yield from ask(SessionOf(event.session_key))
    if session is None or session.reason_code is None:
        return None
    return Verdict(session.status, session.reason_code, None, session.attempt)


def _cleared(position: Position, current: StepStanding, session: str, has_failed: bool) -> tuple[Effect, ...]:
    """Have the worktree of a run that is over removed, or say that it is kept."""
    step = position.step(current.step)
    if step.worktree is None:
        return ()
    name = session.rpartition("/")[2]
    if not step.worktree.is_kept(has_failed):
        return (RemoveWorktree(session),)
    summary = f"the worktree of step {step.id} is kept: worktrees/{name} in the state directory"
    return (Explain(position.run.id, "decided", summary),)


def again_after(position: Position, over: StepStanding) -> tuple[Effect, ...]:
    """The next try of a step, if there is one and it would come before the end of the run's time."""
    step, run, at = position.step(over.step), position.run, position.given.at
    if step.retry is None or over.status == "completed" or over.reason is None:
        return ()
    wait = step.retry.after(over.attempt, over.reason)
    if wait is None or (position.ending is None and run.deadline is not None and at + wait >= run.deadline):
        return ()
    number = over.attempt + 1
    summary = f"step {step.id} is tried again in {wait:g} s: try {number} of {step.retry.attempts}"
    waits = StepStanding(over.step, "waiting", None, attempt=number)
    return (
        SetStep(run.id, at, waits, summary, value=True),
        Emit(TimerSet(run.id, f"{TRY}{over.step} {number}", at, at + wait)),
        Explain(run.id, "decided", summary),
    )


DEADLINE: Final = "deadline"
TRY: Final = "try "
WAITED: Final = "step.timed_out.start_within"
"""The reason of a step that could not begin in time."""


def advance_after_timer(event: TimerRang, given: Given) -> Deciding:
    """A timer of a chain run rang: a step is tried again or waited too long, or the time limit of the whole run has
    passed."""
    run = yield from ask(ChainRunOf(event.subject))
    if run is None or run.status not in ("running", "waiting_approval"):
        return ()
    if event.what == DEADLINE:
        return (yield from advancing.end(run, given))
    # Nothing removes a timer. One whose step has gone on, or is in another try, finds nothing to do.
    word, step, attempt, *due = event.what.split()
    standing = run.steps.get(int(step))
    if standing is None or standing.attempt != int(attempt):
        return ()
    if f"{word} " == HOST:
        # An older Runward named such a timer without its time.
        return (yield from _waited_for_host(run, standing, float(due[0]) if due else given.at, given))
    if standing.status != "waiting":
        return ()
    if f"{word} " in (BEGIN, TURN):
        return (yield from _waited(run, standing, f"{word} ", given))
    if advancing.is_late(run, given.at):
        return (yield from advancing.end(run, given))
    return (yield from resume(position_of(run, given), standing))


def _waited(
    run: ChainRunStanding, standing: StepStanding, word: str, given: Given
) -> Asking[tuple[Effect, ...]]:
    """End a step that still waits for a slot or its run's turn. It is not tried again: it would only wait again."""
    if standing.reason != WAITS_FOR_SLOT and run.reason_code != WAITS:
        return ()
    position = position_of(run, given)
    step = position.step(standing.step)
    if word == TURN and run.reason_code != WAITS and step.approval is not None:
        return ()  # a person was asked after the turn came, and the wait for a slot has its own timer
    why = could_not_begin(step)
    if run.reason_code == WAITS:  # it is not the run's turn, so no other step may begin either
        position = position._replace(ending=Reason(FAILED_BY["timed_out"], why))
    followed = yield from ended(position, standing, "timed_out", Reason(WAITED, why))
    return (Explain(run.id, "decided", why), *followed)


def could_not_begin(step: Step) -> str:
    """Why a step ended that waited too long."""
    return f"step {step.id} could not begin within {step.start_within or 0.0:g} s (start_within)"


_LATE_S: Final = 10.0
"""Seconds by which a timer rings too late if this host slept, or its daemon was down: meanwhile it heard nothing."""

_HEARS_WITHIN_S: Final = 60.0
"""Seconds after that in which the fleet's program has told what became of orders, if the database is there."""


def _waited_for_host(
    run: ChainRunStanding, standing: StepStanding, due: float, given: Given
) -> Asking[tuple[Effect, ...]]:
    """End a step that no host is known to have begun. If it is tried again, that is another order."""
    if not is_elsewhere(standing) or not may_still_be_withdrawn(standing):
        return ()
    position = position_of(run, given)
    step = position.step(standing.step)
    why = could_not_begin(step)
    if given.at - due > _LATE_S:
        summary = f"{why}, but this host was not up then: it waits {_HEARS_WITHIN_S:g} s to hear of it"
        again = host_timer(run.id, standing.step, standing.attempt, given.at, given.at + _HEARS_WITHIN_S)
        return (Explain(run.id, "decided", summary), again)
    over, known = yield from ends_in_doubt(step, standing)
    over, why = over._replace(status="timed_out", reason=WAITED), f"{why}; {known}"
    effects: tuple[Effect, ...] = (
        Explain(run.id, "decided", why),
        SetStep(run.id, given.at, over, why, value=True),
        *cancel_order(run.id, standing, given.at),
    )
    again_later = again_after(position, over)
    return (*effects, *(again_later or (yield from onward(position.with_step(over)))))


DENIED = "chain.aborted.denied"
EXPIRED = "chain.aborted.approval_expired"


def advance_after_decision(event: ApprovalDecided, given: Given) -> Deciding:
    """An approval was decided: its step begins, approval is requested again, or the chain run ends."""
    waiting = yield from waiting_for_person(event.run, event.step)
    if waiting is None:
        return ()
    run, standing = waiting
    position = position_of(run, given)
    step = position.step(event.step)
    by = f"{event.said_by}: {event.note}" if event.note else event.said_by
    if event.decision in ("changed", "approved") and advancing.is_late(run, given.at):
        return (yield from advancing.end(run, given))
    # What was shown no longer holds. The step is decided from its condition on, so a person is asked about what it
    # would do now.
    if event.decision == "changed" and standing.attempt == 1:
        return (yield from onward(position.without(event.step)))
    if event.decision in ("changed", "approved"):
        command = yield from command_at(position, event.step)
        if isinstance(command, NotStarted) and standing.attempt == 1:
            return (yield from onward(position.without(event.step)))
        if isinstance(command, NotStarted):
            return (
                yield from advancing.ended(position, standing, "failed", Reason(NOT_STARTED, command.why))
            )
        if event.decision == "changed":
            return advancing.ask_person(position, step, standing.attempt)
        explained = Explain(run.id, "decided", f"step {step.id} is approved by {by}")
        return (explained, *(yield from begin(position, step, command, standing.attempt)))
    code = DENIED if event.decision == "denied" else EXPIRED
    why = f"step {step.id} is denied by {by}" if event.decision == "denied" else f"step {step.id}: {by}"
    over = standing._replace(status="aborted", reason=code)
    followed = yield from onward(position.with_step(over)._replace(ending=Reason(code, why)))
    return (
        SetStep(run.id, given.at, over, why, value=True),
        Explain(run.id, "decided", why),
        *followed,
    )


def take_slot(event: SlotOffered, given: Given) -> Deciding:
    """There is a slot for a step: it begins, or the slot is offered to the next step."""
    run = yield from ask(ChainRunOf(event.run))
    standing = None if run is None else run.steps.get(event.step)
    if (
        run is None
        or standing is None
        or (standing.status, standing.reason, standing.attempt) != ("waiting", WAITS_FOR_SLOT, event.attempt)
    ):
        # The step no longer waits, so the offer is passed on. Otherwise the slot would stay unused while others wait.
        return (yield from let_go(event.run, 0, given))
    if advancing.is_late(run, given.at):
        return (yield from advancing.end(run, given, freed=0))
    return (yield from resume(position_of(run, given, freed=0), standing))


WITHDRAWN: Final = "its chain run was cancelled"
NOT_BEGUN: Final = "it had not begun"

MOST_TRIES: Final = 6
"""How often a run is looked for that was only asked for when it was cancelled: half a minute. It may never be fired."""


def cancel_run(event: ChainRunCancelRequested, given: Given) -> Deciding:
    """A person wants a chain run ended: it is over at once, and its current step is ended or never begins."""
    run = yield from ask(ChainRunOf(event.run))
    order = f"cancelled by {event.said_by}" + (f": {event.reason}" if event.reason else "")
    if run is None and event.before_it_began and given.tries < MOST_TRIES:
        raise TryLater(f"{event.run} has not been fired yet")
    if run is None:
        return (Explain(event.run, "refused", f"not {order}: there is no such chain run"),)
    if run.status not in ("running", "waiting_approval"):
        return (Explain(event.run, "refused", f"not {order}: it is already {run.status}"),)
    effects: list[Effect] = [Explain(run.id, "decided", order)]
    for step in run.steps.values():
        cancelled = step._replace(status="cancelled", reason="run.cancelled.user")
        if is_elsewhere(step):
            defined = position_of(run, given).step(step.step)
            in_doubt, known = yield from ends_in_doubt(defined, cancelled)
            effects += [
                SetStep(run.id, given.at, in_doubt, f"{WITHDRAWN}; {known}"),
                *cancel_order(run.id, step, given.at),
            ]
        elif step.status in ("waiting", "waiting_approval"):
            effects.append(SetStep(run.id, given.at, cancelled, NOT_BEGUN))
        if step.status == "running" and step.session_key is not None:
            session = yield from ask(SessionOf(step.session_key))
            if session is None:
                effects += [
                    WithdrawStart(step.session_key, given.at, WITHDRAWN),
                    SetStep(run.id, given.at, cancelled, NOT_BEGUN, value=True),
                ]
                invocation = yield from ask(InvocationOf(step.session_key))
                if invocation is not None:
                    key, code = step.session_key, "run.cancelled.user"
                    effects += yield from completed(invocation, given.at, "cancelled", code, session_key=key)
            if session is None or session.status == "running":
                # Even if it is not a session yet: the job that opens it may be in progress, and then comes before this.
                cancel = SessionCancelRequested(
                    request=f"{event.key}/step",
                    at=given.at,
                    session_key=step.session_key,
                    attempt=1 if session is None else session.attempt,
                    reason=event.reason,
                    said_by=event.said_by,
                )
                effects.append(Emit(cancel))
    # A start that was withdrawn frees its slot now. A step that runs keeps its slot until its process tree is dead.
    freed = sum(isinstance(each, WithdrawStart) for each in effects)
    code = "chain.cancelled.superseded" if event.superseded else "chain.cancelled.user"
    ended = over(run, Reason(code, order), given.at)
    return (*effects, *ended, *(yield from let_go(run.id, freed or None, given)))


def end_withdrawn_step(event: AttemptStarted, given: Given) -> Deciding:
    """A session began: if it is a step whose start came too late to be withdrawn, it is ended."""
    name = chain_run_of(event.session_key)
    run = None if name is None else (yield from ask(ChainRunOf(name)))
    if run is None or run.status != "cancelled" or event.attempt != 1:
        return ()
    if all(step.session_key != event.session_key for step in run.steps.values()):
        return ()
    # The start was withdrawn too late, so its session is ended instead.
    order = SessionCancelRequested(
        request=f"{event.key}/late",
        at=given.at,
        session_key=event.session_key,
        attempt=1,
        reason=WITHDRAWN,
        said_by=run.chain,
    )
    return (Emit(order),)
