"""An approval from its request to its decision: what is shown, the answer of a person, and the end of the time for it."""

import hashlib
import json
from typing import Final, NamedTuple

from runward.handlers.approvals.left_files import hash_of, why_not_without
from runward.handlers.approvals.shown import Shown, shown
from runward.handlers.chains.advancing import position_of
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.model.approvals import (
    ApprovalDecided,
    ApprovalOf,
    ApprovalRequested,
    ApprovalStanding,
    ApprovalWanted,
    AskApproval,
    DecideApproval,
    Decision,
    lane_of,
)
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import ChainRunOf
from runward.handlers.model.effects import Deciding, Effect, Effects, Emit, Explain
from runward.handlers.model.timers import TimerRang, TimerSet
from runward.handlers.notices import notices

EXPIRES: Final = "expires "


def approval_id(key: str) -> str:
    """The id of the approval that an event of this key asks for."""
    return f"ap_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def ask_a_person(event: ApprovalWanted, given: Given) -> Deciding:
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


LINK: Final = "link"
"""Who decided, when the link in a notice was used."""


def answer_approval(event: ApprovalRequested, given: Given) -> Deciding:
    """A person approves or denies: decided once, and only for what was shown.

    Store the answer, or say why it does not count.
    """
    approval = yield from ask(ApprovalOf(event.approval))
    word = "approval" if event.decision == "approved" else "denial"
    if approval is None or approval.run != event.run:
        return _refused(event.run, f"the {word} of {event.approval}: there is no such approval")
    if approval.status != "asked":
        return _refused(event.run, f"the {word} of {event.approval}: it is already {approval.status}")
    run = yield from ask(ChainRunOf(event.run))
    if (
        run is None
        or run.status != "waiting_approval"
        or run.steps[approval.step].status != "waiting_approval"
    ):
        return _refused(event.run, f"the {word} of {event.approval}: its step no longer waits for it")
    if approval.expires_at is not None and given.at >= approval.expires_at:
        return _refused(event.run, f"the {word} of {event.approval}: its time is over")
    rule = position_of(run, given.event_hash).step(approval.step).approval
    if rule is not None and rule.not_by_launcher and event.by_link:
        why = "a link does not say who uses it, and the person who fired the chain may not approve; use `runward chain approve`"
        return _refused(event.run, f"the {word} of {event.approval}: {why}")
    if rule is not None and rule.not_by_launcher and event.said_by == run.said_by:
        return _refused(event.run, f"the {word} of {event.approval}: {event.said_by} fired the chain")
    by = LINK if event.by_link else event.said_by
    if event.decision == "denied":
        return decided(approval, given.at, "denied", event.note, by)
    answered = yield from approved(approval, given, event.note, by, event.without)
    if isinstance(answered, NotCovered):
        return _refused(event.run, f"the {word} of {event.approval}: {answered.why}")
    return answered


class NotCovered(NamedTuple):
    """Why an approval doesn't count as it is: a file that it can't cover was not left out in words."""

    why: str


def approved(
    approval: ApprovalStanding, given: Given, note: str, by: str, without: tuple[str, ...] = ()
) -> Asking[Effects | NotCovered]:
    """Approve it, unless what was shown has changed: then it is void, and asked for again.

    The files `without` which it is approved may have changed.
    """
    why = why_not_without(approval.shown, without)
    if why is not None:
        return NotCovered(why)
    run = yield from ask(ChainRunOf(approval.run))
    assert run is not None
    position = position_of(run, given.event_hash)
    now = yield from shown(position, approval.step, given.tries, without, approval.asked_at)
    if isinstance(now, NotStarted) or not _is_as_shown(now, approval, without):
        why = f"the approval of {approval.id}: what was shown has changed; a new approval is asked for"
        return (*_refused(approval.run, why), *decided(approval, given.at, "changed", note, by))
    effects = decided(approval, given.at, "approved", note, by)
    if without:
        said = f"{approval.id} is approved without {', '.join(without)}"
        effects = (*effects, Explain(approval.run, "decided", said, {"without": list(without)}))
    return effects


def _is_as_shown(now: Shown, approval: ApprovalStanding, without: tuple[str, ...]) -> bool:
    """Whether nothing has changed since it was shown, but for the files that are left out."""
    if now.hash == approval.shown_hash:
        return True
    before = approval.shown
    return (
        bool(without) and isinstance(before, dict) and hash_of(now.value, without) == hash_of(before, without)
    )


def decided(approval: ApprovalStanding, at: float, decision: Decision, note: str, by: str) -> Effects:
    """Store the decision, and let the chain run continue from it."""
    said = ApprovalDecided(approval.id, approval.run, approval.step, at, decision, note, by)
    return (DecideApproval(approval.id, at, decision, note, by), Emit(said))


def _refused(run: str, why: str) -> Effects:
    return (Explain(run, "refused", f"not accepted: {why}"),)


NOBODY: Final = "no one decided in time"
BY: Final = "on_timeout"


def expire_approval(event: TimerRang, given: Given) -> Deciding:
    """Nobody decided on an approval in time: its step is denied, or approved if the file says so and nothing changed.

    End the wait, if it is still running.
    """
    approval = yield from ask(ApprovalOf(event.what.removeprefix(EXPIRES)))
    run = None if approval is None else (yield from ask(ChainRunOf(approval.run)))
    if approval is None or run is None or approval.status != "asked" or run.status != "waiting_approval":
        return ()
    rule = position_of(run, given.event_hash).step(approval.step).approval
    if rule is not None and rule.on_timeout == "approve":
        answered = yield from approved(approval, given, NOBODY, BY)
        if not isinstance(answered, NotCovered):
            return answered
        return decided(approval, given.at, "expired", f"{NOBODY}, and {answered.why}", BY)
    return decided(approval, given.at, "expired", NOBODY, BY)
