"""A step waits for a person: what is shown is stored under an id, and the time for the decision begins."""

import hashlib
import json
from typing import Final

from runward.handlers.approvals.shown import shown
from runward.handlers.chains.advancing import position_of
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.model.approvals import ApprovalDecided, ApprovalWanted, AskApproval, lane_of
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import ChainRunOf
from runward.handlers.model.effects import Deciding, Effect, Emit, Explain
from runward.handlers.model.timers import TimerSet
from runward.handlers.notices.addressing import notices

EXPIRES: Final = "expires "


def approval_id(key: str) -> str:
    """The id of the approval that an event of this key asks for."""
    return f"ap_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def decide(event: ApprovalWanted, given: Given) -> Deciding:
    """A step waits for a person: what is shown is stored under an id, and the time for the decision begins.

    Ask for it. If it can't be shown, because it could not be started either, the chain run decides again.
    """
    run = yield from ask(ChainRunOf(event.run))
    standing = None if run is None else run.steps.get(event.step)
    if (
        run is None
        or standing is None
        or standing.status != "waiting_approval"
        or run.status != "waiting_approval"
    ):
        return ()
    position = position_of(run, given.event_hash)
    found = yield from shown(position, event.step, given.tries)
    approval = approval_id(event.key)
    if isinstance(found, NotStarted):
        said = ApprovalDecided(approval, run.id, event.step, given.at, "changed", found.why, "")
        return (Emit(said),)
    rule = position.step(event.step).approval
    expires = None if rule is None or rule.expires is None else given.at + rule.expires
    effects: list[Effect] = [
        AskApproval(approval, run.id, event.step, given.at, expires, found.value, found.hash),
        Explain(run.id, "decided", f"step {position.step(event.step).id} waits for approval {approval}"),
    ]
    if expires is not None:
        effects.append(Emit(TimerSet(lane_of(run.id), f"{EXPIRES}{approval}", given.at, expires)))
    command = found.value["argv"]
    text = f"{json.dumps(command, ensure_ascii=False)}\nrunward chain approve {approval}"
    title = f"{run.chain}: step {position.step(event.step).id} waits for a person"
    return (*effects, *(yield from notices("approval.asked", approval, title, text, given.at)))
