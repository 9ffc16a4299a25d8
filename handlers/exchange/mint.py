"""Only people mint: units of a resource are created, or taken away."""

from runward.handlers.exchange.accounts import accounts_of
from runward.handlers.exchange.action_result import Refused
from runward.handlers.exchange.create import SUBJECT
from runward.handlers.model.asking import Given
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.exchange import MintRequested


def decide(event: MintRequested, given: Given) -> Deciding:
    """Only people mint: units of a resource are created, or taken away.

    Create units of a resource, or take them back.
    """
    accounts = accounts_of(event.key, given)
    reason = event.reason or f"minted by {event.said_by}"
    subject = f"{SUBJECT}{event.principal}"
    try:
        if (yield from accounts.principal(event.principal)) is None:
            raise Refused("not_found", f"there is no principal {event.principal}")
        yield from accounts.mint(event.principal, event.amount, reason, event.resource)
    except Refused as refused:
        return (Explain(subject, "refused", refused.message),)
    what = f"{event.amount} {event.resource}"
    return *accounts.all_effects, Explain(subject, "decided", f"{what} minted by {event.said_by}: {reason}")
