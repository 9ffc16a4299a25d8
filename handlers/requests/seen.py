"""A person has seen how a session ended: it no longer counts as a failure that needs attention."""

from runward.handlers.model.asking import Given
from runward.handlers.model.effects import Effects
from runward.handlers.model.requests import SessionSeenRequested


def seen(event: SessionSeenRequested, given: Given) -> Effects:
    """A person has seen how a session ended: it no longer counts as a failure that needs attention.

    Nothing follows. The recorded event itself, under the attempt's own key, is the mark that `status` checks.
    """
    return ()
