"""A person retries or discards a held job, or asks for a scan."""

from runward.handlers.effects import Effects, Explain, ReleaseJob, ScanRoots
from runward.handlers.events import JobDiscardRequested, JobRetryRequested, ScanRequested
from runward.handlers.facts import Facts


def retry(event: JobRetryRequested, event_hash: str, facts: Facts, now: float) -> Effects:
    """Put the held job back at the head of its lane."""
    reason = f"retried by {event.said_by}"
    return ReleaseJob(event.job, "waiting", reason), Explain(f"job {event.job}", "decided", reason)


def discard(event: JobDiscardRequested, event_hash: str, facts: Facts, now: float) -> Effects:
    """Give the held job up; those behind it in its lane go on."""
    said = f": {event.reason}" if event.reason else ""
    reason = f"discarded by {event.said_by}{said}"
    return ReleaseJob(event.job, "discarded", reason), Explain(f"job {event.job}", "decided", reason)


def scan(event: ScanRequested, event_hash: str, facts: Facts, now: float) -> Effects:
    """Have every root scanned."""
    return (ScanRoots(),)
