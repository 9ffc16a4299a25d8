"""A person says which directory a root is."""

from runward.handlers.asking import Given
from runward.handlers.effects import AcceptRoot, Effects, Explain, ScanRoots
from runward.handlers.events import RootAcceptRequested


def accept(event: RootAcceptRequested, given: Given) -> Effects:
    """Let the directory be the root, and have its contents judged."""
    summary = f"the directory at its path is the root from now on, as {event.said_by} said"
    return (
        AcceptRoot(event.root, event.identity),
        ScanRoots(),
        Explain(f"root {event.root}", "decided", summary),
    )
