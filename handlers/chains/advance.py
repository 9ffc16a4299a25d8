"""A step's run is judged, or can never begin: the chain run goes on, or ends as the step did."""

from runward.config.chain import chain_of
from runward.config.json_value import JsonValue
from runward.handlers.asking import Asking, Given, TryLater, ask
from runward.handlers.chains.advancing import STARTED, Ending, Position, onward
from runward.handlers.chains.effects import SetStep, StepStatus
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
    if run is None:
        return ()
    current = next((each for each in run.steps.values() if each.session_key == event.session_key), None)
    if current is None or current.status != "running":
        return ()
    status: StepStatus
    outcome: JsonValue = None
    said: tuple[Effect, ...] = ()
    if isinstance(event, StartFailed):
        status, code, why = "failed", NOT_STARTED, event.why
        said = (Explain(run.id, "refused", f"step {current.step} is not started: {why}"),)
    elif event.status == "running":
        return ()
    else:
        status, code, why = event.status, event.reason_code, None
        outcome = yield from _outcome(event.session_key)
    over = StepStanding(current.step, status, code, event.session_key, current.attempt, outcome)
    ended = SetStep(
        run.id, over.step, given.at, status, code, why, True, event.session_key, over.attempt, outcome
    )
    if run.status != "running":
        return (ended, *said)
    followed = yield from onward(_position(run, over, given.event_hash), given.at)
    return (ended, *said, *followed)


def _position(run: ChainRunStanding, over: StepStanding, secret: str) -> Position:
    steps = {**run.steps, over.step: over}
    is_ending = run.reason_code != STARTED
    ending = Ending(run.reason_code, run.reason_summary) if is_ending else None
    return Position(
        run.id, chain_of(run.definition), run.trigger, run.fired_by, secret, steps, run.deadline, ending
    )


def _outcome(session_key: str) -> Asking[dict[str, JsonValue] | None]:
    session = yield from ask(SessionOf(session_key))
    assert session is not None, "its verdict was recorded"
    outcome = yield from ask(OutcomeIn(session.path, session.artifacts_path))
    if isinstance(outcome, Unreadable):
        raise TryLater(f"the outcome of {session_key} can't be read: {outcome.why}")
    return None if outcome is None else dict(outcome)
