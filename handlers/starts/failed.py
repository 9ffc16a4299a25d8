"""A run that was ordered can never begin: its order is given up."""

from runward.handlers.asking import Given
from runward.handlers.effects import Effects
from runward.handlers.starts.effects import GiveUpStart
from runward.handlers.starts.events import StartFailed


def decide(event: StartFailed, given: Given) -> Effects:
    """Give it up, with the reason."""
    return (GiveUpStart(event.start, given.at, event.why),)
