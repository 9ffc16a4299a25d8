from runward.handlers.effects import Explain, ReleaseJob, ScanRoots
from runward.handlers.events import JobDiscardRequested, JobRetryRequested, ScanRequested
from runward.handlers.requests import queue


def test_a_retry_puts_the_job_back_and_says_who_asked() -> None:
    effects = queue.retry(JobRetryRequested("r", 1.0, 7, said_by="ann"), "h", {}, 2.0)
    assert effects == (
        ReleaseJob(7, "waiting", "retried by ann"),
        Explain("job 7", "decided", "retried by ann"),
    )


def test_a_discard_gives_the_job_up_and_keeps_the_reason() -> None:
    effects = queue.discard(JobDiscardRequested("r", 1.0, 7, "it is hopeless", "ann"), "h", {}, 2.0)
    assert effects[0] == ReleaseJob(7, "discarded", "discarded by ann: it is hopeless")
    assert queue.discard(JobDiscardRequested("r", 1.0, 7, said_by="ann"), "h", {}, 2.0)[0] == ReleaseJob(
        7, "discarded", "discarded by ann"
    )


def test_a_scan_is_of_every_root() -> None:
    assert queue.scan(ScanRequested("r", 1.0), "h", {}, 2.0) == (ScanRoots(),)
