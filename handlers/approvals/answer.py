"""A person approves or denies: decided once, and only for what was shown."""

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
    DecideApproval,
    Decision,
)
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import ChainRunOf
from runward.handlers.model.effects import Deciding, Effects, Emit, Explain

LINK: Final = "link"
"""Who decided, when the link in a notice was used."""


def decide(event: ApprovalRequested, given: Given) -> Deciding:
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
