"""A person says which directory a root is."""

from runward.handlers.effects import AcceptRoot, Effects, Explain, ScanRoots
from runward.handlers.events import RootAcceptRequested
from runward.handlers.facts import Facts


def accept(event: RootAcceptRequested, event_hash: str, facts: Facts, now: float) -> Effects:
    """Have the directory be the root, and what lies in it judged."""
    summary = f"the directory that stands at its path is the root from now on, as {event.said_by} said"
    return (
        AcceptRoot(event.root, event.identity),
        ScanRoots(),
        Explain(f"root {event.root}", "decided", summary),
    )
