"""A person wants the record of old sessions pruned."""

from typing import Final

from runward.config.duration import render_duration
from runward.handlers.model.asking import Given
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.requests import PruneRequested, PruneSessions
from runward.handlers.requests.subjects import PRUNE

SHORTEST: Final = 1.0
"""Seconds for which a session must have been over, at least: a clock that jumps must not prune recent sessions."""


def prune(event: PruneRequested, given: Given) -> Effects:
    """A person wants the record of old sessions pruned.

    Have it pruned, or say why not.
    """
    if not event.older_than >= SHORTEST:
        why = f"not pruned, as {event.said_by} asked: the age is less than {render_duration(SHORTEST)}"
        return (Explain(PRUNE, "refused", why),)
    before = min(event.at, given.at) - event.older_than
    summary = (
        f"sessions that ended {render_duration(event.older_than)} ago are pruned, as {event.said_by} asked"
    )
    return PruneSessions(before, event.said_by), Explain(PRUNE, "decided", summary)
