"""An invocation is over: that is kept, and the chains that listen to `invocation.completed` are told."""

from typing import Final

from runward.config import own_events
from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.chains import EventOccurred, ListenersTo
from runward.handlers.model.effects import Effects, Emit
from runward.handlers.model.invocations import EndInvocation, EndStatus, Invocation, InvocationOf
from runward.handlers.model.outcomes import outcome_among
from runward.handlers.model.sessions import Session, verdict_among

COMPLETED: Final = "invocation.completed"


def completed(
    invocation: Invocation, at: float, status: EndStatus, reason_code: str, outcome: JsonValue = None
) -> Asking[Effects]:
    """End it, and tell its listeners."""
    end = EndInvocation(invocation.id, at, status, reason_code)
    if not (yield from ask(ListenersTo(COMPLETED))):
        return (end,)
    fields = own_events.InvocationCompleted(
        invocation_id=invocation.id,
        skill=invocation.skill,
        status=status,
        reason_code=reason_code,
        chain=invocation.chain,
        outcome=outcome,
    )._asdict()
    key = f"{invocation.id}/completed"
    occurred = EventOccurred(key, at, COMPLETED, invocation.id, fields, by_run=invocation.by_run)
    return end, Emit(occurred)


def with_session(session: Session, judged: Effects, outcomes: Effects) -> Asking[Effects]:
    """What the verdict on a session, found among `judged`, means for the invocation that ordered the session."""
    verdict = verdict_among(judged)
    if session.invocation_id is None or verdict is None or verdict.status == "running":
        return ()
    invocation = yield from ask(InvocationOf(session.key))
    if invocation is None:
        return ()
    outcome = outcome_among(outcomes)
    return (yield from completed(invocation, verdict.at, verdict.status, verdict.reason_code, outcome))
