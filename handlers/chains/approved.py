"""An approval was decided: its step begins, approval is requested again, or the chain run ends."""

from runward.handlers.chains import late
from runward.handlers.chains.advancing import Ending, begin, command_at, onward, position_of, without
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.model.approvals import ApprovalDecided
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import ChainRunOf, SetStep
from runward.handlers.model.effects import Deciding, Explain

DENIED = "chain.aborted.denied"
EXPIRED = "chain.aborted.approval_expired"


def decide(event: ApprovalDecided, given: Given) -> Deciding:
    """An approval was decided: its step begins, approval is requested again, or the chain run ends.

    Continue from the step that waited, if it still does.
    """
    run = yield from ask(ChainRunOf(event.run))
    standing = None if run is None else run.steps.get(event.step)
    if (
        run is None
        or standing is None
        or run.status != "waiting_approval"
        or standing.status != "waiting_approval"
    ):
        return ()
    position = position_of(run, given.event_hash)
    step = position.step(event.step)
    by = f"{event.said_by}: {event.note}" if event.note else event.said_by
    if event.decision in ("changed", "approved") and late.is_late(run, given.at):
        return (yield from late.end(run, given))
    if event.decision == "changed":
        return (yield from onward(without(position, event.step), given.at))
    if event.decision == "approved":
        command = yield from command_at(position, event.step)
        if isinstance(command, NotStarted):
            return (yield from onward(without(position, event.step), given.at))
        said = Explain(run.id, "decided", f"step {step.id} is approved by {by}")
        return (said, *(yield from begin(position, step, command, 1, given.at)))
    code = DENIED if event.decision == "denied" else EXPIRED
    why = f"step {step.id} is denied by {by}" if event.decision == "denied" else f"step {step.id}: {by}"
    over = standing._replace(status="aborted", reason=code)
    ended = SetStep(run.id, event.step, given.at, "aborted", code, why, True, None, standing.attempt)
    position = position._replace(steps={**position.steps, event.step: over}, ending=Ending(code, why))
    followed = yield from onward(position, given.at)
    return (ended, Explain(run.id, "decided", why), *followed)
