"""A requested run can never begin: the request is given up."""

from runward.config.step import NOT_STARTED
from runward.handlers.invocations.completed import completed
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding
from runward.handlers.model.invocations import InvocationOf
from runward.handlers.model.starts import GiveUpStart, StartFailed


def decide(event: StartFailed, given: Given) -> Deciding:
    """A requested run can never begin: the request is given up.

    Give it up, with the reason.
    """
    given_up = GiveUpStart(event.start, given.at, event.why)
    invocation = yield from ask(InvocationOf(event.session_key))
    if invocation is None:
        return (given_up,)
    return given_up, *(yield from completed(invocation, given.at, "failed", NOT_STARTED))
