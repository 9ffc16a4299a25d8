"""A person pauses, disables or resumes a chain."""

from runward.handlers.asking import Given
from runward.handlers.chains.effects import SetChainStatus
from runward.handlers.chains.events import ChainStatusRequested
from runward.handlers.effects import Effects, Explain


def decide(event: ChainStatusRequested, given: Given) -> Effects:
    """Store it. Firings that are requested later are skipped, or no longer skipped."""
    said = f"{event.status}, as {event.said_by} asked" + (f": {event.note}" if event.note else "")
    return (
        SetChainStatus(event.chain, event.at, event.status, event.note, event.said_by),
        Explain(f"chain {event.chain}", "decided", f"it is {said}"),
    )
