"""A person says which directory a root is."""

from runward.handlers.model.asking import Given
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.requests import AcceptRoot, RootAcceptRequested, ScanRoots


def accept(event: RootAcceptRequested, given: Given) -> Effects:
    """A person says which directory a root is.

    Let the directory be the root, and have its contents judged.
    """
    summary = f"the directory at its path is the root from now on, as {event.said_by} said"
    return (
        AcceptRoot(event.root, event.identity),
        ScanRoots(),
        Explain(f"root {event.root}", "decided", summary),
    )
