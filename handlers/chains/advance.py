"""A step's run is judged, or can never begin: the chain run continues, or ends as the step did."""

from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.config.step import NOT_STARTED
from runward.handlers.chains.advancing import Position, onward, position_of
from runward.handlers.chains.rang import TRY
from runward.handlers.chains.slots import let_go
from runward.handlers.model.asking import Asking, Given, TryLater, ask
from runward.handlers.model.chains import (
    ChainRunOf,
    LaneWaits,
    LeftBy,
    SetStep,
    StepResult,
    StepStanding,
    StepStatus,
    chain_run_of,
)
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.model.outcomes import lane
from runward.handlers.model.sessions import SessionFinished, SessionOf
from runward.handlers.model.starts import RemoveWorktree, StartedEarlier, StartFailed
from runward.handlers.model.timers import TimerSet


def decide(event: SessionFinished | StartFailed | StartedEarlier, given: Given) -> Deciding:
    """A step's run is judged, or can never begin: the chain run continues, or ends as the step did.

    Read the outcome of the step, and continue from it. A session that no chain started changes nothing.
    """
    name = chain_run_of(event.session_key)
    run = None if name is None else (yield from ask(ChainRunOf(name)))
    if run is None:
        return ()
    current = next((each for each in run.steps.values() if each.session_key == event.session_key), None)
    verdict = yield from _verdict(event)
    if current is None or verdict is None or verdict.status == "running":
        return ()
    position = position_of(run, given.event_hash)._replace(freed=1)
    cleared = _cleared(position, current, event.session_key, verdict.status != "completed")
    if current.status != "running":
        return cleared
    status, code, why, _ = verdict
    outcome: JsonValue = None
    result = StepResult()
    said: tuple[Effect, ...] = ()
    if isinstance(event, StartFailed):
        said = (Explain(run.id, "refused", f"step {current.step} is not started: {why}"),)
    else:
        if (yield from ask(LaneWaits(lane(event.session_key)))):
            raise TryLater("an artifact that was added to the session of its step is not stored yet")
        left = yield from ask(LeftBy(event.session_key, verdict.attempt))
        outcome, result = None if left.outcome is None else dict(left.outcome), left.result
        why = left.why if status != "completed" else None
    over = StepStanding(current.step, status, code, event.session_key, current.attempt, outcome, result)
    ended = SetStep(
        *(run.id, over.step, given.at, status, code, why, True, event.session_key, over.attempt, outcome),
        result=result,
    )
    said = (*said, *cleared)
    if run.status != "running":
        return (ended, *said, *(yield from let_go(run.id, 1, given.at, given.event_hash[:16])))
    again = _again(position, over, given.at)
    if again:
        return (ended, *said, *again, *(yield from let_go(run.id, 1, given.at, given.event_hash[:16])))
    followed = yield from onward(position._replace(steps={**run.steps, over.step: over}), given.at)
    return (ended, *said, *followed)


class _Verdict(NamedTuple):
    status: StepStatus
    code: str
    why: str | None
    attempt: int = 1


def _verdict(event: SessionFinished | StartFailed | StartedEarlier) -> Asking[_Verdict | None]:
    """How the run of the step ended; None if it is not known yet."""
    if isinstance(event, StartFailed):
        return _Verdict("failed", NOT_STARTED, event.why)
    if isinstance(event, SessionFinished):
        return _Verdict(event.status, event.reason_code, None, event.attempt)
    session = yield from ask(SessionOf(event.session_key))
    if session is None or session.reason_code is None:
        return None
    return _Verdict(session.status, session.reason_code, None, session.attempt)


def _cleared(position: Position, current: StepStanding, session: str, has_failed: bool) -> tuple[Effect, ...]:
    """Have the worktree of a run that is over removed, or say that it is kept."""
    step = position.step(current.step)
    if step.worktree is None:
        return ()
    name = session.rpartition("/")[2]
    if not step.worktree.is_kept(has_failed):
        return (RemoveWorktree(session),)
    said = f"the worktree of step {step.id} is kept: worktrees/{name} in the state directory"
    return (Explain(position.run, "decided", said),)


def _again(position: Position, over: StepStanding, at: float) -> tuple[Effect, ...]:
    """The next try of a step, if there is one and it would come before the end of the run's time."""
    step = position.step(over.step)
    if step.retry is None or over.status == "completed" or over.reason is None:
        return ()
    wait = step.retry.after(over.attempt, over.reason)
    if wait is None or (
        position.ending is None and position.deadline is not None and at + wait >= position.deadline
    ):
        return ()
    number = over.attempt + 1
    said = f"step {step.id} is tried again in {wait:g} s: try {number} of {step.retry.attempts}"
    return (
        SetStep(position.run, over.step, at, "waiting", None, said, True, None, number),
        Emit(TimerSet(position.run, f"{TRY}{over.step} {number}", at, at + wait)),
        Explain(position.run, "decided", said),
    )
