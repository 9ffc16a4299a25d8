"""A person pauses, disables or resumes a chain."""

from runward.handlers.model.asking import Given
from runward.handlers.model.chains import ChainStatusRequested, SetChainStatus
from runward.handlers.model.effects import Effects, Explain


def decide(event: ChainStatusRequested, given: Given) -> Effects:
    """A person pauses, disables or resumes a chain.

    Store it. Firings that are requested later are skipped, or no longer skipped.
    """
    said = f"{event.status}, as {event.said_by} asked" + (f": {event.note}" if event.note else "")
    return (
        SetChainStatus(event.chain, event.at, event.status, event.note, event.said_by),
        Explain(f"chain {event.chain}", "decided", f"it is {said}"),
    )
