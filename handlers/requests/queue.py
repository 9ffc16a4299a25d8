"""A person retries or discards a held job, or asks for a scan."""

from typing import Literal

from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding, Effects, Explain
from runward.handlers.model.exchange import CountIntent, IntentMade
from runward.handlers.model.requests import (
    JobDiscardRequested,
    JobRetryRequested,
    JobStateOf,
    ReleaseJob,
    ScanRequested,
    ScanRoots,
)


def retry(event: JobRetryRequested, given: Given) -> Deciding:
    """Put the held job back at the head of its lane."""
    return _release(event.job, "waiting", f"retried by {event.said_by}")


def discard(event: JobDiscardRequested, given: Given) -> Deciding:
    """Give the held job up; the jobs behind it in its lane continue."""
    said = f": {event.reason}" if event.reason else ""
    return _release(event.job, "discarded", f"discarded by {event.said_by}{said}")


def _release(job: int, state: Literal["waiting", "discarded"], reason: str) -> Deciding:
    found = yield from ask(JobStateOf(job))
    subject = f"job {job}"
    if found is not None and found.state == "held":
        effects: Effects = (ReleaseJob(job, state, reason), Explain(subject, "decided", reason))
        if state == "discarded" and isinstance(found.event, IntentMade):
            effects += (CountIntent(found.event.session_key),)
        return effects
    why = f"it is {found.state}, not held" if found is not None else "there is no such job"
    return (Explain(subject, "refused", f"not {reason}: {why}"),)


def scan(event: ScanRequested, given: Given) -> Effects:
    """Have every root scanned."""
    return (ScanRoots(),)
