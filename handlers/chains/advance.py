"""A step's run is judged, or can never begin: the chain run goes on, or ends as the step did."""

from runward.config.chain import chain_of
from runward.handlers.asking import Given, TryLater, ask
from runward.handlers.chains.advancing import FAILED_BY, Position, onward
from runward.handlers.chains.effects import SetChainRun, SetStep
from runward.handlers.chains.events import chain_run_of
from runward.handlers.chains.facts import ChainRunOf, ChainRunStanding, OutcomeIn, StepStanding
from runward.handlers.chains.stepping import NOT_STARTED
from runward.handlers.effects import Deciding, Effect, Explain
from runward.handlers.events import SessionFinished
from runward.handlers.facts import SessionOf
from runward.handlers.starts.events import StartFailed
from runward.handlers.unreadable import Unreadable


def decide(event: SessionFinished | StartFailed, given: Given) -> Deciding:
    """Read the outcome of the step, and go on from it. A session that no chain started changes nothing."""
    name = chain_run_of(event.session_key)
    run = None if name is None else (yield from ask(ChainRunOf(name)))
    if run is None or run.status != "running":
        return ()
    current = next((each for each in run.steps.values() if each.session_key == event.session_key), None)
    if current is None or current.status != "running":
        return ()
    if isinstance(event, StartFailed):
        return _never_began(run, current, event, given.at)
    if event.status == "running":
        return ()
    session = yield from ask(SessionOf(event.session_key))
    assert session is not None, "its verdict was recorded"
    outcome = yield from ask(OutcomeIn(session.path, session.artifacts_path))
    if isinstance(outcome, Unreadable):
        raise TryLater(f"the outcome of {event.session_key} can't be read: {outcome.why}")
    kept = None if outcome is None else dict(outcome)
    over = SetStep(
        run.id,
        current.step,
        given.at,
        event.status,
        event.reason_code,
        None,
        True,
        event.session_key,
        current.attempt,
        kept,
    )
    if event.status != "completed":
        status, code = FAILED_BY[event.status]
        said = f"step {current.step} ended {event.status} ({event.reason_code})"
        return (over, SetChainRun(run.id, given.at, status, code, said, current.step))
    steps = {
        **run.steps,
        current.step: StepStanding(
            current.step, "completed", event.reason_code, event.session_key, current.attempt, kept
        ),
    }
    position = Position(run.id, chain_of(run.definition), run.trigger, run.fired_by, given.event_hash, steps)
    followed = yield from onward(position, current.step + 1, given.at)
    return (over, *followed)


def _never_began(
    run: ChainRunStanding, current: StepStanding, event: StartFailed, at: float
) -> tuple[Effect, ...]:
    status, code = FAILED_BY["failed"]
    return (
        SetStep(
            run.id,
            current.step,
            at,
            "failed",
            NOT_STARTED,
            event.why,
            session_key=event.session_key,
            attempt=current.attempt,
        ),
        SetChainRun(
            run.id, at, status, code, f"step {current.step} was not started: {event.why}", current.step
        ),
        Explain(run.id, "refused", f"step {current.step} is not started: {event.why}"),
    )
