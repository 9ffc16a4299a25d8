"""The verdict as an event that chains listen to."""

from typing import Final

from runward.config import own_events
from runward.handlers.model.chains import EventOccurred, chain_run_of
from runward.handlers.model.effects import Effects, Emit
from runward.handlers.model.outcomes import outcome_among
from runward.handlers.model.sessions import Session, verdict_among

FINISHED: Final = "session.finished"


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
