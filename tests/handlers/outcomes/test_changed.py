"""Outcomes that were written while their session runs: what is kept of them, and when nothing is."""

import pytest
from tests.handlers.played import played

from runward.handlers.model.asking import NotYet
from runward.handlers.model.chains import IsHeard
from runward.handlers.model.files import Unreadable
from runward.handlers.model.outcomes import (
    BeingRead,
    OutcomeFile,
    OutcomesChanged,
    OutcomesIn,
    RecordArtifact,
)
from runward.handlers.model.sessions import Session, SessionOf, Status
from runward.handlers.outcomes import recording
from runward.handlers.outcomes.recording import ADDED

KEY = "native:runs/s"
PLACES = OutcomesIn("/runs/s", "/runs/s/artifacts")
FILES = (
    OutcomeFile("outcome.json", b'{"outcome_kind": "ci_result", "summary": "green"}'),
    OutcomeFile("outcomes/bad.json", b"{"),
)
decide = played(recording.outcomes_changed)


def session(status: Status, attempt: int) -> Session:
    return Session(
        KEY, "s", "native", "/runs/s", status, attempt, "/runs/s/artifacts", None, None, None, 1.0, "live"
    )


def follows(status: Status = "running", attempt: int = 1, files: object = FILES) -> object:
    known = {SessionOf(KEY): session(status, attempt), PLACES: files, IsHeard(ADDED): ()}
    return decide(OutcomesChanged(KEY, 1, 2.0, "5e"), "hash", known, 3.0)


def test_what_is_valid_is_kept_until_the_verdict_reads_it_again() -> None:
    effects = follows()
    assert isinstance(effects, tuple)
    (kept,) = effects
    assert isinstance(kept, RecordArtifact)
    assert (kept.kind, kept.name, kept.summary, kept.is_provisional) == (
        "ci_result",
        "outcome",
        "green",
        True,
    )


@pytest.mark.parametrize(("status", "attempt"), [("completed", 1), ("failed", 1), ("running", 2)])
def test_nothing_is_kept_once_the_attempt_has_its_verdict(status: Status, attempt: int) -> None:
    assert follows(status, attempt) == ()


def test_large_reports_are_waited_for_because_the_verdict_needs_them_too() -> None:
    assert isinstance(follows(files=BeingRead(0.0)), NotYet)


def test_files_that_cannot_be_read_now_are_left_to_the_verdict_and_do_not_hold_it_up() -> None:
    assert follows(files=Unreadable("the disk is away")) == ()
