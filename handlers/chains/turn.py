"""A chain run that waited for another one has its turn: its first step begins."""

from runward.handlers.chains import late
from runward.handlers.chains.advancing import WAITS, onward, position_of, without
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import ChainRunOf, ChainRunTurn
from runward.handlers.model.effects import Deciding


def decide(event: ChainRunTurn, given: Given) -> Deciding:
    """A chain run that waited for another one has its turn: its first step begins.

    Begin it, unless it has begun or is over.
    """
    run = yield from ask(ChainRunOf(event.run))
    if run is None or run.status != "running" or run.reason_code != WAITS:
        return ()
    if late.is_late(run, given.at):
        return (yield from late.end(run, given))
    position = position_of(run, given.event_hash)
    return (yield from onward(without(position, position.chain.steps[0].index), given.at))
