"""A person has seen how a session ended: it no longer counts as a failure that needs attention."""

from runward.handlers.asking import Given
from runward.handlers.effects import Effects
from runward.handlers.events import SessionSeenRequested


def seen(event: SessionSeenRequested, given: Given) -> Effects:
    """Nothing follows. The recorded event itself, under the attempt's own key, is the mark that `status` checks."""
    return ()
