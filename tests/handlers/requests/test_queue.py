import pytest
from tests.handlers.played import Answer, AnyQuestion, Need, played

from runward.handlers.model.effects import Explain
from runward.handlers.model.exchange import CountIntent, IntentMade
from runward.handlers.model.requests import (
    JobDiscardRequested,
    JobRetryRequested,
    JobState,
    JobStateOf,
    ReleaseJob,
    ScanRequested,
    ScanRoots,
)
from runward.handlers.requests import discard_job, retry_job, scan_roots

retry, discard, scan = played(retry_job), played(discard_job), played(scan_roots)
HELD: dict[AnyQuestion, Answer] = {JobStateOf(7): JobState("held")}


def test_how_the_job_stands_is_asked_first() -> None:
    assert retry(JobRetryRequested("r", 1.0, 7), "h", {}, 2.0) == Need(JobStateOf(7))
    assert discard(JobDiscardRequested("r", 1.0, 7), "h", {}, 2.0) == Need(JobStateOf(7))


def test_a_retry_puts_the_job_back_and_says_who_asked() -> None:
    effects = retry(JobRetryRequested("r", 1.0, 7, said_by="ann"), "h", HELD, 2.0)
    assert effects == (
        ReleaseJob(7, "waiting", "retried by ann"),
        Explain("job 7", "decided", "retried by ann"),
    )


def test_a_discard_gives_the_job_up_and_keeps_the_reason() -> None:
    effects = discard(JobDiscardRequested("r", 1.0, 7, "it is hopeless", "ann"), "h", HELD, 2.0)
    assert effects == (
        ReleaseJob(7, "discarded", "discarded by ann: it is hopeless"),
        Explain("job 7", "decided", "discarded by ann: it is hopeless"),
    )


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        (JobDiscardRequested("r", 1.0, 7), (CountIntent("native:runs/a"),)),
        (JobRetryRequested("r", 1.0, 7), ()),
    ],
)
def test_only_an_intent_that_is_given_up_counts_as_finished(
    asked: JobDiscardRequested | JobRetryRequested, counted: tuple[CountIntent, ...]
) -> None:
    intent = IntentMade("native:runs/a", 1, 3, 1.0, "ann", "{}")
    held: dict[AnyQuestion, Answer] = {JobStateOf(7): JobState("held", intent)}
    effects = (
        discard(asked, "h", held, 2.0)
        if isinstance(asked, JobDiscardRequested)
        else retry(asked, "h", held, 2.0)
    )
    assert isinstance(effects, tuple)
    assert effects[2:] == counted


@pytest.mark.parametrize(
    ("found", "why"), [(JobState("done"), "it is done, not held"), (None, "there is no such job")]
)
def test_what_is_not_held_is_not_released_and_that_is_said(found: JobState | None, why: str) -> None:
    effects = retry(JobRetryRequested("r", 1.0, 7, said_by="ann"), "h", {JobStateOf(7): found}, 2.0)
    assert effects == (Explain("job 7", "refused", f"not retried by ann: {why}"),)


def test_a_scan_is_of_every_root() -> None:
    assert scan(ScanRequested("r", 1.0), "h", {}, 2.0) == (ScanRoots(),)
