"""A session began: if it is a step whose start came too late to be withdrawn, it is ended."""

from runward.handlers.asking import Given, ask
from runward.handlers.chains.cancel import WITHDRAWN
from runward.handlers.chains.events import chain_run_of
from runward.handlers.chains.facts import ChainRunOf
from runward.handlers.effects import Deciding, Emit
from runward.handlers.events import AttemptStarted, SessionCancelRequested


def decide(event: AttemptStarted, given: Given) -> Deciding:
    """Have the step of a cancelled chain run ended."""
    name = chain_run_of(event.session_key)
    run = None if name is None else (yield from ask(ChainRunOf(name)))
    if run is None or run.status != "cancelled" or event.attempt != 1:
        return ()
    if all(step.session_key != event.session_key for step in run.steps.values()):
        return ()
    order = SessionCancelRequested(f"{event.key}/late", given.at, event.session_key, 1, WITHDRAWN, run.chain)
    return (Emit(order),)
