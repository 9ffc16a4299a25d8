"""Invocations: each requested use of a skill, from its id and its start to its end."""

import hashlib
from typing import Final

from runward.config import own_events
from runward.config.json_value import JsonValue
from runward.config.step import NOT_STARTED
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import EventOccurred, IsHeard
from runward.handlers.model.effects import Deciding, Effects, Emit
from runward.handlers.model.fleet import depth_behind
from runward.handlers.model.invocations import (
    EndInvocation,
    EndStatus,
    GiveUpStart,
    Invocation,
    InvocationOf,
    LinkSession,
    StartedEarlier,
    StartFailed,
)
from runward.handlers.model.outcomes import LatestOutcomeOf, outcome_among
from runward.handlers.model.sessions import Session, SessionOf, verdict_among


def of_chain_run(run: str) -> str:
    """The id of a chain run's root."""
    return _id(run)


def of_try(run: str, step: int, attempt: int) -> str:
    """The id of a try of a step of a chain run."""
    return _id(f"{run}/{step}/{attempt}")


def of_request(request: str) -> str:
    """The id of what a person asked for with this request."""
    return _id(request)


def of_play(session_key: str) -> str:
    """The id of a play of a show."""
    return _id(f"play/{session_key}")


def _id(ordered: str) -> str:
    return f"inv_{hashlib.sha256(ordered.encode()).hexdigest()[:12]}"


COMPLETED: Final = "invocation.completed"


def completed(
    invocation: Invocation,
    at: float,
    status: EndStatus,
    reason_code: str,
    outcome: JsonValue = None,
    *,
    session_key: str | None,
) -> Asking[Effects]:
    """End it, and tell its listeners. `session_key` is of what it ordered, which may never have become a session; None for a chain run."""
    end = EndInvocation(invocation.id, at, status, reason_code)
    if not (yield from ask(IsHeard(COMPLETED))):
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
    depth = 0 if session_key is None else (yield from depth_behind(session_key))
    occurred = EventOccurred(key, at, COMPLETED, invocation.id, fields, by_run=invocation.by_run, depth=depth)
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
    how = (verdict.at, verdict.status, verdict.reason_code)
    return (yield from completed(invocation, *how, outcome, session_key=session.key))


def link_started_earlier(event: StartedEarlier, given: Given) -> Deciding:
    """A requested run began before the request was recorded: its session is linked to its invocation, and ends it if it
    is over.

    The verdict on a session that still runs will find the invocation.
    """
    session = yield from ask(SessionOf(event.session_key))
    invocation = yield from ask(InvocationOf(event.session_key))
    if session is None or invocation is None or session.invocation_id is not None:
        return ()
    # The session began before its order was recorded, so it opened without an invocation.
    link = LinkSession(session.key, invocation.id)
    if session.status == "running" or session.reason_code is None:
        return (link,)
    latest = yield from ask(LatestOutcomeOf(session.key))
    outcome = None if latest is None else dict(latest)
    how = (given.at, session.status, session.reason_code)
    return link, *(yield from completed(invocation, *how, outcome, session_key=session.key))


def give_up_start(event: StartFailed, given: Given) -> Deciding:
    """A requested run can never begin: the request is given up."""
    given_up = GiveUpStart(event.start, given.at, event.why)
    invocation = yield from ask(InvocationOf(event.session_key))
    if invocation is None:
        return (given_up,)
    return given_up, *(
        yield from completed(invocation, given.at, "failed", NOT_STARTED, session_key=event.session_key)
    )
