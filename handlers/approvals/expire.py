"""Nobody decided on an approval in time: its step is denied, or approved if the file says so and nothing changed."""

from typing import Final

from runward.handlers.approvals.answer import NotCovered, approved, decided
from runward.handlers.approvals.show import EXPIRES
from runward.handlers.chains.advancing import position_of
from runward.handlers.model.approvals import ApprovalOf
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.chains import ChainRunOf
from runward.handlers.model.effects import Deciding
from runward.handlers.model.timers import TimerRang

NOBODY: Final = "no one decided in time"
BY: Final = "on_timeout"


def decide(event: TimerRang, given: Given) -> Deciding:
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
