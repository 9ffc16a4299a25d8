"""What an Adjutant session directory says, in each of its forms."""

import json
from datetime import datetime

import pytest
from tests.handlers.layouts.adjutant_lines import (
    FORMS,
    Form,
    call,
    end,
    receipt,
    record,
    session,
    start,
    step,
)
from tests.handlers.layouts.directories import document, fed, fed_in_portions, numbered

from runward.config.json_value import JsonValue
from runward.handlers.layouts.adjutant import IDS_KEPT, RECEIPT, REPLAY, SCANNER
from runward.handlers.layouts.transcript import Close, Counts, Told
from runward.handlers.model.reasons import status_of
from runward.handlers.model.sessions import Document


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def told(lines: list[bytes], *documents: Document) -> Told:
    return fed(SCANNER, "sess_dir", {REPLAY: lines}, documents)[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_session_of_any_form_that_ended_well_is_completed(form: Form) -> None:
    lines = session(form, "success" if form.startswith("d") else "Success")
    assert told(lines, document(RECEIPT, receipt(form))) == Told(
        session_id="sess_7",
        attempt=1,
        turn="closed",
        close=Close("completed", "run.completed.ok", "the session ended well", at("2026-01-13T10:00:09Z")),
        headless=True,
        started_at=at("2026-01-13T10:00:00Z"),
        moved_at=at("2026-01-13T10:00:09Z"),
        version="1.2.3" if form == "c" else None,
        counts=Counts(events=len(lines), tool_calls=2, errors=1),
        turns=1,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("Success", "run.completed.ok"),
        ("Failed", "run.failed.exception"),
        ("failure", "run.failed.exception"),
        ("Cancelled", "run.cancelled.user"),
        ("canceled", "run.cancelled.user"),
        ("Timeout", "run.timed_out.deadline"),
        ("timed_out", "run.timed_out.deadline"),
    ],
)
def test_each_word_of_session_end_means_one_state(form: Form, word: str, reason: str) -> None:
    said = told(session(form, word))
    assert said.close is not None
    assert said.close.reason_code == reason
    assert said.close.status == status_of(reason)
    assert not said.declared, "a log may yet grow"


@pytest.mark.parametrize("word", ["Paused", "", None, 7, ["Success"]])
def test_an_unknown_word_is_said_to_be_unknown(word: JsonValue) -> None:
    lines = [*start("b"), record("b", "SessionEnd", "2026-01-13T10:00:09Z", status=word)]
    said = told(lines)
    assert said.turn == "open"
    (complaint,) = said.complaints
    assert (complaint.file, "SessionEnd" in complaint.message) == (REPLAY, True)
    later = told([*lines, end("b", "Success")])
    assert (later.turn, later.complaints) == ("closed", ())


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (["Success"], "run.failed.exception"),
        (["Failed"], "run.failed.exception"),
        (["MaxIterationsReached"], "run.failed.limit_reached"),
        (["MaxIterationsReached", "Skipped"], "run.failed.limit_reached"),
        (["MaxIterationsReached", "Failed"], "run.failed.exception"),
    ],
)
def test_a_session_that_failed_only_by_running_out_of_iterations_reached_its_limit(
    steps: list[str], reason: str
) -> None:
    said = told([*start("b"), *(step("b", status) for status in steps), end("b", "Failed")])
    assert said.close is not None
    assert said.close.reason_code == reason


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", ["Success", "Failed"])
def test_no_beginning_of_a_replay_is_over(form: Form, status: str) -> None:
    lines = session(form, status)
    for count in range(len(lines)):
        for documents in ((), (document(RECEIPT, receipt(form)),)):
            said = told(lines[:count], *documents)
            assert said.turn == ("open" if count or documents else "none")
    torn = told([*lines[:-1], lines[-1][:30]])
    assert (torn.turn, torn.unreadable) == ("open", 1), "a killed session may end in half a line"


def test_the_services_replay_of_a_run_that_is_not_over_ends_nothing() -> None:
    middle = [*start("d"), *call("d", "tc_1")]
    assert told([*middle, end("d", "success", 0.5)]).turn == "open"
    assert told([*middle, end("d", "success", 1.0)]).turn == "closed"
    assert told([*middle, end("d", "failure", 0.5)]).turn == "closed"
    assert told([*start("c"), end("c", "Success", 0.5)]).turn == "closed", "only the service writes it so"


def test_a_session_that_starts_again_after_its_end_has_begun_the_next_attempt() -> None:
    again = [*start("c", "2026-01-13T11:00:00Z"), *call("c", "tc_9")]
    said, (resumed,) = fed(SCANNER, "d", {REPLAY: [*session("c", "Failed", "Failed"), *again]})
    assert (said.attempt, said.turn) == (2, "open")
    assert said.started_at == resumed.started_at == at("2026-01-13T11:00:00Z")
    assert (resumed.attempt, resumed.before.status) == (2, "failed")
    assert (resumed.turns, resumed.began_at, said.turns) == (1, at("2026-01-13T10:00:00Z"), 2)
    ended = told([*session("c", "Failed", "Failed"), *again, end("c", "Failed")])
    assert ended.close is not None
    assert ended.counts.tool_calls == 3


def test_what_failed_before_an_end_is_not_held_against_the_next_attempt() -> None:
    again = [*start("c"), step("c", "MaxIterationsReached"), end("c", "Failed")]
    said = told([*session("c", "Failed", "Failed"), *again])
    assert said.close is not None
    assert said.close.reason_code == "run.failed.limit_reached"


@pytest.mark.parametrize("event", ["Payment", "Verification", "SomethingNew", "ReplayHeader"])
def test_what_is_added_after_an_end_begins_nothing(event: str) -> None:
    said = told([*session("b"), record("b", event, "2026-01-13T12:00:00Z")])
    assert (said.turn, said.attempt) == ("closed", 1)
    assert said.moved_at == at("2026-01-13T12:00:00Z")


def test_a_call_that_is_told_twice_counts_once() -> None:
    lines = [*start("b"), *call("b", "tc_1") * 3, *call("b", "tc_2")]
    assert told(lines).counts == Counts(events=9, tool_calls=2)


def test_calls_without_an_id_count_each_and_the_memory_of_ids_is_bounded() -> None:
    calls = [record("b", "ToolCall", "2026-01-13T10:00:02Z", id=None)] * 3
    many = [record("b", "ToolCall", "2026-01-13T10:00:02Z", id="x" * 500 + str(n)) for n in range(1000)]
    assert told(calls).counts.tool_calls == 3
    state, _ = SCANNER.feed(SCANNER.start("d"), REPLAY, numbered([*many, *call("b", "tc_1")]))
    assert len(state.replay.last_ids) <= IDS_KEPT
    assert len(SCANNER.dump(state)) < 8192


def test_a_receipt_alone_tells_of_a_session_but_not_how_it_ended() -> None:
    said = told([], document(RECEIPT, receipt("b")))
    assert said == Told(
        session_id="sess_7",
        attempt=1,
        turn="open",
        headless=True,
        started_at=at("2026-01-13T10:00:00.123456+00:00"),
        moved_at=at("2026-01-13T10:00:09.123456+00:00"),
        counts=Counts(tool_calls=2),
        turns=1,
    )
    service = told([], document(RECEIPT, receipt("d")))
    assert service.started_at == service.moved_at == at("2026-01-13T10:00:00Z")


def test_a_torn_receipt_is_waited_for() -> None:
    torn = document(RECEIPT, json.dumps(receipt("b")).encode()[:-9])
    said = told(session("b"), torn)
    assert said.turn == "closed"
    assert [complaint.file for complaint in said.complaints] == [RECEIPT]
    state = SCANNER.see(SCANNER.start("d"), [torn, document(RECEIPT, receipt("b"))])
    assert SCANNER.tell(state).complaints == ()


def test_the_session_id_in_the_replay_goes_before_the_receipts_and_the_directorys() -> None:
    other = document(RECEIPT, receipt("b") | {"session_id": "sess_8"})
    assert told([], other).session_id == "sess_8"
    assert told(start("b"), other).session_id == "sess_7"
    assert told([]).session_id == "sess_dir"


def test_a_second_start_without_an_end_between_is_the_same_stretch() -> None:
    said, resumed = fed(SCANNER, "d", {REPLAY: [*start("b"), *start("b", "2026-01-13T11:00:00Z", "other")]})
    assert (said.attempt, said.session_id, resumed) == (1, "sess_7", [])
    assert said.started_at == at("2026-01-13T10:00:00Z")


def test_a_resumption_is_told_once_however_the_log_is_portioned() -> None:
    lines = [*session("b", "Failed"), *session("b")]
    whole = fed(SCANNER, "d", {REPLAY: lines})
    for cut in range(len(lines) + 1):
        assert fed_in_portions(SCANNER, "d", REPLAY, lines, [cut]) == whole


def test_files_of_other_names_change_nothing() -> None:
    state = SCANNER.start("d")
    assert SCANNER.feed(state, "replay.jsonl", numbered(session("b"))) == (state, ())
    assert SCANNER.see(state, [document("PR_SUMMARY.md", b"# Summary")]) == state


def test_what_was_never_written_here_is_refused() -> None:
    good = SCANNER.dump(SCANNER.start("d"))
    for text in ("", "{}", "[]", good.replace('"version":1', '"version":2'), good.replace("false", "7")):
        with pytest.raises(ValueError, match=r".+"):
            SCANNER.load(text)
