"""A requested run began before the request was recorded: its session is linked to its invocation, and ends it if it is over."""

from runward.handlers.invocations.completed import completed
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding
from runward.handlers.model.invocations import InvocationOf, LinkSession
from runward.handlers.model.outcomes import LatestOutcomeOf
from runward.handlers.model.sessions import SessionOf
from runward.handlers.model.starts import StartedEarlier


def decide(event: StartedEarlier, given: Given) -> Deciding:
    """A requested run began before the request was recorded: its session is linked to its invocation, and ends it if it
    is over.

    Link the two. The verdict on a session that still runs will find the invocation.
    """
    session = yield from ask(SessionOf(event.session_key))
    invocation = yield from ask(InvocationOf(event.session_key))
    if session is None or invocation is None or session.invocation_id is not None:
        return ()
    link = LinkSession(session.key, invocation.id)
    if session.status == "running" or session.reason_code is None:
        return (link,)
    found = yield from ask(LatestOutcomeOf(session.key))
    outcome = None if found is None else dict(found)
    return link, *(yield from completed(invocation, given.at, session.status, session.reason_code, outcome))
