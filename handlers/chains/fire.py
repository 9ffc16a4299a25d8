"""A chain was fired: its run begins, with the first step that is not skipped."""

from runward.config.chain import chain_of
from runward.handlers.asking import Given, ask
from runward.handlers.chains.advancing import Position, onward, run_id
from runward.handlers.chains.effects import OpenChainRun
from runward.handlers.chains.events import ChainFired
from runward.handlers.chains.facts import ChainFiresNow, ChainRunOf
from runward.handlers.chains.rang import DEADLINE
from runward.handlers.effects import Deciding, Emit, Explain
from runward.handlers.timers.events import TimerSet


def decide(event: ChainFired, given: Given) -> Deciding:
    """Open the run and begin it."""
    run = run_id(event.key)
    fires = yield from ask(ChainFiresNow(event.chain))
    if fires is not None and fires.status != "active" and event.at >= fires.since:
        why = f"{event.event} {event.event_id} is skipped: it is {fires.status}, as {fires.said_by} asked"
        return (Explain(f"chain {event.chain}", "refused", why, {"reason": "firing.skipped.paused"}),)
    if (yield from ask(ChainRunOf(run))) is not None:
        return (Explain(run, "refused", f"{event.event} {event.event_id} fired it before"),)
    chain = chain_of(event.definition)
    deadline = None if chain.timeout is None else given.at + chain.timeout
    position = Position(run, chain, event.fields, event.fired_by, given.event_hash, {}, deadline)
    opened = OpenChainRun(
        run, event.chain, given.at, event.definition, event.fields, event.fired_by, deadline, event.said_by
    )
    followed = yield from onward(position, given.at)
    timers = () if deadline is None else (Emit(TimerSet(run, DEADLINE, given.at, deadline)),)
    return (opened, *timers, *followed)
