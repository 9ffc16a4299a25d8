"""A session began: if it is a step whose start came too late to be withdrawn, it is ended."""

from runward.handlers.chains.cancel import WITHDRAWN
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import ChainRunOf, chain_run_of
from runward.handlers.model.effects import Deciding, Emit
from runward.handlers.model.requests import SessionCancelRequested
from runward.handlers.model.sessions import AttemptStarted


def decide(event: AttemptStarted, given: Given) -> Deciding:
    """A session began: if it is a step whose start came too late to be withdrawn, it is ended.

    Have the step of a cancelled chain run ended.
    """
    name = chain_run_of(event.session_key)
    run = None if name is None else (yield from ask(ChainRunOf(name)))
    if run is None or run.status != "cancelled" or event.attempt != 1:
        return ()
    if all(step.session_key != event.session_key for step in run.steps.values()):
        return ()
    order = SessionCancelRequested(f"{event.key}/late", given.at, event.session_key, 1, WITHDRAWN, run.chain)
    return (Emit(order),)
