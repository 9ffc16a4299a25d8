"""A person has seen how a session ended: it counts no more among the failures that need somebody."""

from runward.handlers.asking import Given
from runward.handlers.effects import Effects
from runward.handlers.events import SessionSeenRequested


def seen(event: SessionSeenRequested, given: Given) -> Effects:
    """Nothing follows: that it is recorded, under the attempt's own key, is the mark that `status` goes by."""
    return ()
