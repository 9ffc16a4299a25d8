"""A requested run can never begin: the request is given up."""

from runward.config.step import NOT_STARTED
from runward.handlers.asking import Given, ask
from runward.handlers.effects import Deciding
from runward.handlers.invocations.completed import completed
from runward.handlers.invocations.facts import InvocationOf
from runward.handlers.starts.effects import GiveUpStart
from runward.handlers.starts.events import StartFailed


def decide(event: StartFailed, given: Given) -> Deciding:
    """Give it up, with the reason."""
    given_up = GiveUpStart(event.start, given.at, event.why)
    invocation = yield from ask(InvocationOf(event.session_key))
    if invocation is None:
        return (given_up,)
    return given_up, *(yield from completed(invocation, given.at, "failed", NOT_STARTED))
