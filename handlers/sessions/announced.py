"""The verdict as an event that chains listen to."""

from typing import Final

from runward.config import own_events
from runward.config.json_value import JsonValue
from runward.handlers.model.chains import EventOccurred, chain_run_of
from runward.handlers.model.effects import Effects, Emit
from runward.handlers.model.outcomes import RecordArtifact
from runward.handlers.model.sessions import Session, SessionFinished

FINISHED: Final = "session.finished"


def verdict_among(judged: Effects) -> SessionFinished | None:
    """The verdict among these effects."""
    told = (each.event for each in judged if isinstance(each, Emit))
    return next((each for each in told if isinstance(each, SessionFinished)), None)


def outcome_among(outcomes: Effects) -> JsonValue:
    """The last outcome of a registered kind that these effects keep."""
    known = [each for each in outcomes if isinstance(each, RecordArtifact) and each.is_known]
    return known[-1].content if known else None


def finished(session: Session, judged: Effects, outcomes: Effects, cwd: str | None) -> Effects:
    """`session.finished`, with the last outcome of a registered kind, for the verdict found among `judged`."""
    verdict = verdict_among(judged)
    if verdict is None:
        return ()
    fields = own_events.SessionFinished(
        session_id=session.session_id,
        key=session.key,
        layout=session.layout,
        status=verdict.status,
        reason_code=verdict.reason_code,
        delivery=verdict.delivery,
        playbook=session.playbook,
        agent=session.agent,
        cwd=cwd,
        outcome=outcome_among(outcomes),
    )._asdict()
    key = f"{verdict.key}/event"
    attempt = f"{session.key}#{verdict.attempt}"
    occurred = EventOccurred(key, verdict.at, FINISHED, attempt, fields, by_run=chain_run_of(session.key))
    return (Emit(occurred),)
