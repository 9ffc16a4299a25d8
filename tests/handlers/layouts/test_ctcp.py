"""What a CTCP run directory says: its words, its log, its times without a zone, and what goes on after a failure."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.handlers.layouts.ctcp_lines import (
    beginning,
    event,
    mended_run,
    passed_run,
    report,
    run_json,
    verification,
)
from tests.handlers.layouts.directories import document, fed, numbered, recorded

from runward.config.json_value import JsonValue
from runward.handlers.layouts import ctcp
from runward.handlers.layouts.ctcp import EVENTS, REPORT, RUN, SCANNER
from runward.handlers.layouts.transcript import Close, Counts, Told
from runward.handlers.model.reasons import status_of
from runward.handlers.model.sessions import Document


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def told(lines: list[bytes], *documents: Document) -> Told:
    return fed(SCANNER, "dir-1", {EVENTS: lines}, documents)[0]


def run(status: str = "running", modified_at: float = 0.0, /, **more: JsonValue) -> Document:
    return document(RUN, run_json(status, **more), modified_at)


def test_a_run_that_passed_is_completed_as_its_own_file_says() -> None:
    said = told(passed_run(), run("pass"), document(REPORT, report("PASS")))
    assert said == Told(
        session_id="run-7",
        attempt=1,
        turn="closed",
        close=Close("completed", "run.completed.ok", "the run passed", at("2026-03-01T10:00:09")),
        declared=True,
        headless=True,
        started_at=at("2026-03-01T10:00:00"),
        moved_at=at("2026-03-01T10:01:05"),
        cwd="/repo",
        prompt="fix the lift",
        counts=Counts(events=9, tool_calls=3, errors=0),
        turns=1,
    )


@pytest.mark.parametrize(
    ("status", "more", "state", "reason"),
    [
        ("pass", {}, "closed", "run.completed.ok"),
        ("PASS", {}, "closed", "run.completed.ok"),
        ("fail", {}, "closed", "run.failed.exception"),
        ("fail", {"blocked_reason": "verify_failed"}, "closed", "run.failed.exception"),
        ("fail", {"blocked_reason": "max_iterations_exceeded"}, "closed", "run.failed.limit_reached"),
        ("fail", {"blocked_reason": "budget_exceeded"}, "closed", "run.failed.limit_reached"),
        ("running", {}, "open", None),
        ("blocked", {"blocked_reason": "waiting for PLAN_draft.md"}, "open", None),
        ("blocked", {"blocked_reason": "max_iterations_exceeded"}, "open", None),
        ("paused", {}, "open", None),
    ],
)
def test_each_word_of_run_json_means_one_state(
    status: str, more: dict[str, JsonValue], state: str, reason: str | None
) -> None:
    said = told([], run(status, **more))
    assert said.turn == state
    assert (said.close and said.close.reason_code) == reason
    if said.close:
        assert said.close.status == status_of(said.close.reason_code)
        assert said.declared
    assert said.waiting == (status == "blocked")


def test_an_unknown_word_is_said_to_be_unknown() -> None:
    (complaint,) = told([], run("paused")).complaints
    assert complaint.file == RUN
    assert "'paused'" in complaint.message


def test_a_failure_names_its_reason() -> None:
    said = told([], run("fail", blocked_reason="find_local_failed"))
    assert said.close is not None
    assert said.close.reason_summary == "the run failed: find_local_failed"


@pytest.mark.parametrize(
    ("lines", "waits"),
    [
        ([*beginning()[:3]], True),
        (beginning(), False),
        ([*beginning(), event("blocked")], True),
        ([*beginning(), event("APPLY_BLOCKED_DIRTY")], True),
        ([*beginning(), event("STOP_BUDGET_EXCEEDED")], True),
        ([*beginning(), event("local_exec_failed", rc=1)], True),
        ([*beginning(), event("blocked"), event("verify_started")], False),
        (passed_run(), False),
    ],
)
def test_without_run_json_the_log_tells_whether_it_waits_for_a_person(
    lines: list[bytes], waits: bool
) -> None:
    assert told(lines).waiting is waits


def test_a_blocked_run_waits_unless_its_verification_is_under_way() -> None:
    assert told(beginning(), run("blocked")).waiting
    assert not told([*beginning(), event("VERIFY_STARTED")], run("blocked")).waiting


def test_without_run_json_the_log_tells_the_end() -> None:
    said = told(passed_run())
    assert said.close == Close("completed", "run.completed.ok", "the run passed", at("2026-03-01T10:01:05"))
    assert not said.declared, "a log may yet grow"
    assert said.session_id == "dir-1"
    failed = told([*beginning(), *verification(1, False)])
    assert failed.close == Close(
        "failed", "run.failed.exception", "its verification failed", at("2026-03-01T10:01:04")
    )


@pytest.mark.parametrize(("result", "status"), [("PASS", "completed"), ("fail", "failed")])
def test_without_either_the_verification_report_tells_the_end(result: str, status: str) -> None:
    sister = [event("round_started", round=1), b'{"event": "round_done", "round": 1, "reason": "ok"}']
    said = told(sister, document(REPORT, report(result)))
    assert said.close is not None
    assert (said.close.status, said.declared) == (status, True)
    assert told([event("verify_started")], document(REPORT, report(result))).close is None, (
        "of the round before"
    )
    assert told([], run("running"), document(REPORT, report(result))).close is None


def test_a_failed_run_that_goes_on_has_begun_the_next_attempt() -> None:
    said, (resumed,) = fed(SCANNER, "d", {EVENTS: mended_run()})
    assert said.attempt == 2
    assert said.close is not None
    assert said.close.status == "completed"
    assert said.started_at == at("2026-03-01T10:02:01")
    assert resumed.attempt == 2
    assert resumed.before.status == "failed"
    assert resumed.started_at == said.started_at
    assert (resumed.turns, resumed.began_at, said.turns) == (1, at("2026-03-01T10:00:00"), 2)


def test_a_failed_run_that_goes_on_is_open_while_its_file_still_says_fail() -> None:
    lines = [*beginning(), *verification(1, False)]
    assert told(lines, run("fail")).turn == "closed"
    fixed = [*lines, event("OUTBOX_PROMPT_FULFILLED")]
    assert told(fixed, run("fail")).turn == "closed", "a patch that lies there is no work yet"
    assert told([*fixed, event("patch_apply", rc=0)], run("fail")).turn == "open"
    again = [*fixed, *verification(2, False)]
    said = told(again, run("fail"))
    assert (said.turn, said.attempt) == ("closed", 2)


def test_what_follows_a_failure_by_itself_begins_nothing() -> None:
    tail = [
        event("SUPPORT_PUBLIC_DELIVERY_SENT"),
        event("failure_bundle_created"),
        event("STOP_BUDGET_EXCEEDED"),
    ]
    said = told([*beginning(), *verification(1, False), *tail])
    assert (said.turn, said.attempt, said.waiting) == ("closed", 1, False)


@pytest.mark.parametrize("lines", [passed_run(), mended_run(), [*beginning(), *verification(1, False)]])
def test_no_beginning_of_a_log_is_completed_before_its_own_end(lines: list[bytes]) -> None:
    for end in range(len(lines)):
        said = told(lines[:end])
        assert said.close is None or said.close.status == "failed"
        assert (said.close is not None) == (b"VERIFY_FAILED" in b"".join(lines[:end]) and said.attempt == 1)
    assert told(lines).turn == "closed"


def test_commands_are_its_calls_and_those_that_fail_its_errors() -> None:
    lines = [
        event("patch_apply", rc=1),
        event("PATCH_REJECTED", code="PATCH_PARSE_INVALID"),
        event("LOCAL_EXEC_FAILED", rc=1),
        event("LOCAL_EXEC_COMPLETED", rc=0),
        event("verify_complete", rc="1"),
        event("PATCH_REVERT_FAILED"),
    ]
    assert told(lines).counts == Counts(events=6, tool_calls=5, errors=3)


@pytest.mark.parametrize("hours", [-14, -5.5, 0, 1, 5.75, 14])
def test_times_without_a_zone_are_in_that_in_which_run_json_was_written(hours: float) -> None:
    local = at("2026-03-01T10:00:09")
    written = local - hours * 3600 + 0.8  # a little after the time in it
    said = told(passed_run(), run("pass", written))
    assert said.started_at == at("2026-03-01T10:00:00") - hours * 3600
    assert said.close is not None
    assert said.close.at == local - hours * 3600


@pytest.mark.parametrize("later", [500.0, 15 * 3600, -20 * 3600, 1e9])
def test_times_without_a_zone_are_utc_where_a_file_was_copied(later: float) -> None:
    said = told(passed_run(), run("pass", at("2026-03-01T10:00:09") + later))
    assert said.started_at == at("2026-03-01T10:00:00")


def test_times_with_a_zone_are_what_they_are_and_the_files_order_counts() -> None:
    lines = [event("run_created", "2026-03-01T10:00:00Z"), event("blocked", "2026-03-01T08:00:00+02:00")]
    said = told(lines, run("blocked", at("2026-03-01T11:00:09"), updated_at="nonsense"))
    assert said.started_at == at("2026-03-01T10:00:00")
    assert said.moved_at == at("2026-03-01T06:00:00")


@pytest.mark.parametrize("time", ["", "yesterday", "9999-99-99T00:00:00", "0001-01-01T00:00:00", 7, None, []])
def test_a_time_that_is_none_is_no_time(time: JsonValue) -> None:
    said = told(
        [event("run_created") if time is None else event("run_created", ts=time)], run(created_at=time)
    )
    assert said.attempt == 1
    assert said.started_at in (None, at("2026-03-01T10:00:00"))


def test_a_half_written_run_json_is_waited_for() -> None:
    state = SCANNER.see(SCANNER.start("d"), [run("blocked")])
    torn = SCANNER.see(state, [document(RUN, b'{"status": "pa')])
    assert SCANNER.tell(torn).waiting, "what it said before counts on"
    (complaint,) = SCANNER.tell(torn).complaints
    assert (complaint.file, complaint.line) == (RUN, 1)
    whole = SCANNER.tell(SCANNER.see(torn, [run("pass")]))
    assert whole.close is not None
    assert whole.complaints == ()


@pytest.mark.parametrize("value", [b"", b"[]", b"null", b"\xff", b"[" * 5000, b'"pass"'])
def test_a_file_that_holds_no_object_is_named_and_ends_nothing(value: bytes) -> None:
    for name in ctcp.DOCUMENTS:
        said = told([], document(name, value))
        assert said.turn == "none"
        assert [complaint.file for complaint in said.complaints] == [name]


def test_lines_that_are_no_records_are_counted_or_passed_over() -> None:
    lines = [b'{"ts": "x"', b'"a bare text"', b"null", b"", event("run_created") + event("blocked")]
    said = told(lines)
    assert said.counts.events == 2
    assert said.waiting
    assert said.unreadable == 4
    assert [(each.line, each.message) for each in said.complaints] == [
        (1, "not JSON: Expecting ',' delimiter"),
        (2, "must be an object, not a text"),
        (3, "must be an object, not nothing"),
        (5, "not JSON: Extra data"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"ts": "x", "ts": "y", "role": "r", "event": "e", "path": ""}',
            "the key 'ts' appears twice in one object",
        ),
        (b'{"ts": NaN, "role": "r", "event": "e", "path": ""}', "NaN is not a JSON number"),
        (b'{"role": "r", "event": "e", "path": ""}', "ts is missing or not text"),
        (b'{"ts": "x", "role": 1, "event": "e"}', "role, path are missing or not text"),
        (b"[1]", "must be an object, not a list"),
    ],
)
def test_every_line_that_breaks_contract_j_is_a_problem(line: bytes, message: str) -> None:
    said = told([event("run_created"), line, event("blocked")])
    assert [(each.file, each.line, each.message) for each in said.complaints] == [
        ("events.jsonl", 2, message)
    ]
    assert said.waiting


def test_files_of_other_names_change_nothing() -> None:
    state = SCANNER.start("d")
    assert SCANNER.feed(state, "TRACE.jsonl", numbered([event("run_pass")])) == (state, ())
    assert SCANNER.see(state, [document("PLAN.json", {"status": "pass"})]) == state


def test_what_was_never_written_here_is_refused() -> None:
    good = SCANNER.dump(SCANNER.start("d"))
    for text in ("", "{}", "[]", good.replace('"version":1', '"version":2'), good.replace("false", "7")):
        with pytest.raises(ValueError, match=r".+"):
            SCANNER.load(text)


def test_the_recorded_run_passed_after_a_rejected_patch(material: Path) -> None:
    directory = material / "samples" / "ctcp-run-pass"
    lines = (directory / EVENTS).read_bytes().split(b"\n")[:-1]
    said, resumed = fed(SCANNER, directory.name, {EVENTS: lines}, recorded(directory, ctcp.DOCUMENTS))
    assert said == Told(
        session_id="run-pass",
        attempt=1,
        turn="closed",
        close=Close("completed", "run.completed.ok", "the run passed", at("2026-11-21T07:38:28")),
        declared=True,
        headless=True,
        started_at=at("2026-11-21T07:38:27"),
        moved_at=at("2026-11-21T07:38:28"),
        cwd="/repo",
        prompt="sample run-pass",
        counts=Counts(events=29, tool_calls=5, errors=1),
        turns=1,
    )
    assert resumed == []
    for end in range(len(lines)):
        assert told(lines[:end]).close is None
    assert told(lines).close is not None
