"""Runs that arrive in pieces: when they are judged, and what corrects a verdict that came too early."""

import pytest
from tests.handlers.examples import NOTES, NOW, PATH, REPORT, REVIEW, ended, session
from tests.handlers.sessions.test_ended import ABSENT, CONTRACT, THERE, answers, the_end

from runward.config.contract import Contract
from runward.config.json_value import JsonValue
from runward.handlers.model.asking import NotYet, TryLater
from runward.handlers.model.files import FileFact, RootFacts, Unreadable
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import AttemptEnded, LastChange, Launch, Session
from runward.handlers.sessions import late
from runward.handlers.sessions.late import Lacking, lacking, outcome_has_arrived

LACKS, DELIVERS = RootFacts(True, (ABSENT, THERE)), RootFacts(True, (THERE, THERE))
EMPTY, INVALID = RootFacts(True, (FileFact("empty"), THERE)), RootFacts(True, (FileFact("unfit"), THERE))
PROCESS = RecordedProcess(7, 70, "b")


def changed(seconds_ago: float, ended_ago: float = 5.0) -> LastChange:
    return LastChange(NOW - seconds_ago, NOW - ended_ago)


@pytest.mark.parametrize(
    "facts", [LACKS, EMPTY, INVALID, RootFacts(False)], ids=["absent", "empty", "invalid", "no root"]
)
def test_a_run_that_would_fail_for_a_file_is_judged_once_its_directory_was_quiet_for_two_seconds(
    facts: RootFacts,
) -> None:
    waits = answers(ended(), session(CONTRACT), facts, changed=changed(0.5))
    assert isinstance(waits, NotYet)
    assert waits.until == pytest.approx(NOW + 1.5)
    judged = answers(ended(), session(CONTRACT), facts, changed=changed(2.0))
    assert isinstance(judged, tuple)
    assert the_end(judged).status == "failed"
    assert the_end(judged).was_awaited


def test_a_run_that_passes_is_judged_at_once() -> None:
    judged = answers(ended(), session(CONTRACT), DELIVERS, changed=changed(0.0))
    assert isinstance(judged, tuple)
    assert (the_end(judged).status, the_end(judged).was_awaited) == ("completed", False)


def test_a_run_that_a_launcher_recorded_is_judged_at_once() -> None:
    launch = Launch(100.0, "5" * 64, session(CONTRACT).contract_json, PROCESS, PROCESS)
    judged = answers(ended(), session(CONTRACT), LACKS, launch=launch, changed=changed(0.0))
    assert isinstance(judged, tuple)
    assert (the_end(judged).status, the_end(judged).was_awaited) == ("failed", False)


@pytest.mark.parametrize(
    ("event", "running"),
    [
        (ended("aborted", "run.aborted.vanished", evidence="process_gone"), session(CONTRACT)),
        (ended(), session(CONTRACT, layout="ctcp")),
    ],
    ids=["not declared", "another layout"],
)
def test_only_a_native_run_that_declared_its_end_is_waited_for(event: AttemptEnded, running: Session) -> None:
    assert isinstance(answers(event, running, LACKS, changed=changed(0.0)), tuple)


def test_a_directory_that_never_comes_to_rest_is_waited_for_ten_minutes() -> None:
    assert isinstance(answers(ended(), session(CONTRACT), LACKS, changed=changed(0.1, 599.0)), NotYet)
    assert isinstance(answers(ended(), session(CONTRACT), LACKS, changed=changed(0.1, 600.0)), tuple)


def test_a_change_in_the_future_delays_nothing() -> None:
    assert isinstance(answers(ended(), session(CONTRACT), LACKS, changed=changed(-0.1)), tuple)


def test_a_directory_that_cannot_be_read_is_not_quiet() -> None:
    refused = answers(ended(), session(CONTRACT), LACKS, changed=Unreadable("Input/output error"))
    assert isinstance(refused, TryLater)
    assert not isinstance(refused, NotYet)


def lacked(known: dict[str, JsonValue], contract: Contract = CONTRACT) -> Lacking:
    text = session(contract).contract_json
    assert text is not None
    return lacking(1, NOW, f"{PATH}/artifacts", text, 100.0, known)


def test_only_required_files_that_were_absent_may_correct_a_verdict() -> None:
    contract = Contract((REVIEW, REPORT, NOTES))
    states: dict[str, JsonValue] = {REVIEW.path: "absent", REPORT.path: "empty", NOTES.path: "absent"}
    assert lacked({late.NOT_DELIVERED: states}, contract).absent == (REVIEW.path,)
    states[REVIEW.path] = "absent; there is 'Review.md'"
    assert lacked({late.NOT_DELIVERED: states}, contract).absent == (REVIEW.path,)


def test_without_an_artifacts_directory_all_required_files_are_absent() -> None:
    known: dict[str, JsonValue] = {late.NOT_DELIVERED: {}, late.ARTIFACTS_ROOT: "missing"}
    assert lacked(known, Contract((REVIEW, REPORT, NOTES))).absent == (REVIEW.path, REPORT.path)


def test_an_outcome_arrives_if_its_file_was_not_there_before() -> None:
    nothing_lacked = lacked({late.NOT_DELIVERED: {}})
    assert not outcome_has_arrived(nothing_lacked, ["outcome.json"])
    one_was_invalid = lacked({late.NOT_DELIVERED: {}, late.OUTCOME_FILES: ["outcome.json"]})
    assert not outcome_has_arrived(one_was_invalid, ["outcome.json"])
    assert outcome_has_arrived(one_was_invalid, ["outcome.json", "outcomes/review.json"])


def test_the_looks_for_a_late_file_become_rarer_and_end_after_a_minute() -> None:
    waits = lacked({})
    ages, looks = 0.0, []
    while (again := waits.look_in(NOW + ages)) is not None:
        ages += again
        looks.append(ages)
    assert looks == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0]


def test_a_clock_that_was_set_back_ends_the_wait() -> None:
    assert lacked({}).look_in(NOW - 1.0) is None
