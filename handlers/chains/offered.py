"""There is a slot for a step: it begins, or the slot is offered to the next step."""

from runward.config.step import NOT_STARTED
from runward.handlers.chains import late
from runward.handlers.chains.advancing import begin, command_at, ended, position_of
from runward.handlers.chains.slots import let_go
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import WAITS_FOR_SLOT, ChainRunOf, SlotOffered
from runward.handlers.model.effects import Deciding


def decide(event: SlotOffered, given: Given) -> Deciding:
    """There is a slot for a step: it begins, or the slot is offered to the next step.

    Begin the step with the command that it has now.
    """
    run = yield from ask(ChainRunOf(event.run))
    standing = None if run is None else run.steps.get(event.step)
    if (
        run is None
        or standing is None
        or (standing.status, standing.reason, standing.attempt) != ("waiting", WAITS_FOR_SLOT, event.attempt)
    ):
        return (yield from let_go(event.run, 0, given.at, given.event_hash[:16]))
    if late.is_late(run, given.at):
        return (yield from late.end(run, given, freed=0))
    position = position_of(run, given.event_hash)._replace(freed=0)
    command = yield from command_at(position, event.step)
    if not isinstance(command, NotStarted):
        return (yield from begin(position, position.step(event.step), command, event.attempt, given.at))
    return (yield from ended(position, standing, "failed", NOT_STARTED, command.why, given.at))
