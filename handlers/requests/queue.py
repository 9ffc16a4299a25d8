"""A person retries or discards a held job, or asks for a scan."""

from typing import Literal

from runward.handlers.effects import Effects, Explain, ReleaseJob, ScanRoots
from runward.handlers.events import JobDiscardRequested, JobRetryRequested, ScanRequested
from runward.handlers.facts import Facts, JobState, JobStateOf, Need


def retry(event: JobRetryRequested, event_hash: str, facts: Facts, now: float) -> Effects | Need:
    """Put the held job back at the head of its lane."""
    return _release(event.job, "waiting", f"retried by {event.said_by}", facts)


def discard(event: JobDiscardRequested, event_hash: str, facts: Facts, now: float) -> Effects | Need:
    """Give the held job up; those behind it in its lane go on."""
    said = f": {event.reason}" if event.reason else ""
    return _release(event.job, "discarded", f"discarded by {event.said_by}{said}", facts)


def _release(job: int, state: Literal["waiting", "discarded"], reason: str, facts: Facts) -> Effects | Need:
    question = JobStateOf(job)
    if question not in facts:
        return Need((question,))
    found = facts[question]
    subject = f"job {job}"
    if isinstance(found, JobState) and found.state == "held":
        return ReleaseJob(job, state, reason), Explain(subject, "decided", reason)
    why = f"it is {found.state}, not held" if isinstance(found, JobState) else "there is no such job"
    return (Explain(subject, "refused", f"not {reason}: {why}"),)


def scan(event: ScanRequested, event_hash: str, facts: Facts, now: float) -> Effects:
    """Have every root scanned."""
    return (ScanRoots(),)
