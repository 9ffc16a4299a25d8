"""The lines of a replay that tell of calls: hashes over whole values, and what is shown of them."""

import json
from functools import partial
from typing import cast

import pytest

from runward.config.bundle import BundleRules
from runward.config.json_value import JsonValue
from runward.handlers.bundle import replay as bundle_replay
from runward.handlers.bundle import replay_lines
from runward.handlers.bundle.canonical import FORMS, canonical_bytes, hash_of
from runward.handlers.bundle.replay import TOO_MANY, Replay, receipt_body, summary_of
from runward.handlers.bundle.replay_check import ReplayCheck
from runward.handlers.bundle.replay_lines import MOST_VALUES, OF_A_LINE, RawLine, read_line
from runward.handlers.bundle.summary import dump_summary, summary_text
from runward.handlers.calls import (
    Called,
    Place,
    PlanTold,
    Returned,
    Stated,
    StepDone,
    Told,
    Unusable,
    VerificationTold,
)
from runward.handlers.layouts.adjutant import AdjutantCalls
from runward.handlers.layouts.call_readers import PlacedLine, told_by_events
from runward.handlers.model.bundle import BundleOrder, FileEdit, Stretch, Verdict, WorkTree
from runward.handlers.secrets import REDACTED

AT = 1_769_860_800.0
USUAL = BundleRules()
PLACE = Place("trace.jsonl", 1, 0, 10)
SECRET = "sk-ant-Abcdef0123456789Abcdef0123456789"
VERDICT = Verdict(AT + 60, "completed", "run.completed.ok", "", None, "sha256:00")


def replayed(*told: Told, rules: BundleRules = USUAL) -> tuple[Replay, list[dict[str, JsonValue]]]:
    """The replay, and its lines but the first and the last."""
    order = BundleOrder("native:r/run", "run", "native", "/run", "/run", 1, Stretch(AT), VERDICT, rules)
    replay = Replay(order)
    lines = list(replay.lines(told))
    for line in lines:
        assert canonical_bytes(json.loads(line), rules.canonical_form) + b"\n" == line
    return replay, [json.loads(line) for line in lines[1:-1]]


def test_hashes_cover_whole_values_and_lines_show_what_may_be_shown() -> None:
    params: JsonValue = {"cmd": f"login {SECRET}"}
    content = "x" * 100
    called, returned = Called(PLACE, AT, "c", "sh", params), Returned(PLACE, AT + 0.25, "c", content)
    replay, (call, result) = replayed(called, returned, rules=BundleRules(longest_text=10))
    assert call["params_hash"] == hash_of(params)
    assert call["params"] == {"cmd": "login…cted]"}
    assert call["cut"] == {"/params/cmd": len(f"login {SECRET}")}
    assert result["output_hash"] == hash_of({"content": content, "error": None, "success": True})
    assert result["output"] == {"content": "xxxxx…xxxxx", "error": None, "success": True}
    assert result["cut"] == {"/output/content": 100}
    assert result["latency_ms"] == 250
    assert replay.calls["c"].output_hash == result["output_hash"]


def test_a_failed_call_has_its_error_in_the_output() -> None:
    _, (_, result) = replayed(
        Called(PLACE, AT, "c", "sh", None), Returned(PLACE, AT, "c", None, "no", False, 2)
    )
    assert result["output"] == {"content": None, "error": "no", "success": False}
    assert result["exit_code"] == 2


def test_a_secret_in_a_command_reaches_no_part_of_the_bundle() -> None:
    called = Called(PLACE, AT, "c", "sh", {"command": f"pytest --key {SECRET}"})
    replay, lines = replayed(called, Returned(PLACE, AT, "c", f"the key {SECRET} is bad", exit_code=0))
    assert SECRET not in json.dumps(lines)
    assert [run.command for run in replay.verification.runs()] == [f"pytest --key {REDACTED}"]
    assert lines[0]["redacted"] == ["/params/command"]
    assert lines[1]["redacted"] == ["/output/content"]


def test_no_value_of_an_agent_brings_a_secret_into_any_part_of_a_bundle() -> None:
    order = BundleOrder(
        "native:r/run",
        "run",
        "native",
        "/run",
        "/run",
        1,
        Stretch(AT),
        VERDICT._replace(
            status="failed", reason_code="run.failed.exit_nonzero", reason_summary=f"said {SECRET}"
        ),
        USUAL,
        changes=(f"uses {SECRET}",),
        cwd="/work",
        work_tree=WorkTree("/work", (f"Add {SECRET}",), (FileEdit(f"a-{SECRET}", 1),)),
    )
    replay = Replay(order)
    lines = replay.lines(
        [
            Stated(PLACE, 7, f"policy {SECRET}"),
            StepDone(PLACE, AT, SECRET, SECRET),
            Called(PLACE, AT, SECRET, SECRET, {"file_path": f"/work/{SECRET}"}, SECRET),
            Returned(PLACE, AT, SECRET, "done"),
            Called(PLACE, AT, f"{SECRET}2", SECRET, "\ud800", SECRET),
            Returned(PLACE, AT, f"{SECRET}2", "done"),
            Called(PLACE, AT, SECRET, SECRET, None),
            Unusable(PLACE, f"can't use {SECRET}"),
        ]
    )
    written = b"".join(lines)
    receipt = receipt_body(replay, (), ())
    summary = summary_of(replay)
    for part in (
        written.decode(),
        json.dumps(receipt),
        summary_text(summary),
        dump_summary(summary),
        replay.problem,
    ):
        assert part is not None
        assert SECRET not in part
        assert REDACTED in part.replace("\\[", "[").replace("\\]", "]")
    ids = [call["id"] for call in cast("list[dict[str, JsonValue]]", receipt["tool_calls"])]
    assert len(set(ids)) == 2
    check = ReplayCheck(FORMS)
    for number, line in enumerate(written.splitlines(), 1):
        check.take(read_line(RawLine(number, line)))
    assert [each for each in check.finish() if each.severity == "error"] == []


def test_the_tokens_of_a_call_may_be_told_with_its_result() -> None:
    replay, _ = replayed(
        Called(PLACE, AT, "a", "sh", None, None, 5),
        Returned(PLACE, AT, "a", "x"),
        Called(PLACE, AT, "b", "sh", None),
        Returned(PLACE, AT, "b", "x", tokens=7),
    )
    assert [call.cost_tokens for call in replay.calls.values()] == [5, 7]


@pytest.mark.parametrize(
    ("value", "form", "kept"),
    [
        ({"a": 2}, "seed", {"a": 2}),
        ({"a": "half \ud800"}, "seed", {"a": "half \ufffd"}),
        ({"a": 2**60}, "rfc8785", None),
    ],
)
def test_what_cannot_be_hashed_has_no_hash_and_a_problem(
    value: JsonValue, form: str, kept: JsonValue
) -> None:
    rules = BundleRules(canonical_form="rfc8785" if form == "rfc8785" else "seed")
    told = "a key appears twice" if value == {"a": 2} else None
    replay, (call, result) = replayed(
        Called(PLACE, AT, "c", "sh", value, problem=told),
        Returned(PLACE, AT, "c", value, problem=told),
        rules=rules,
    )
    assert (call["params"], call["params_hash"]) == (kept, None)
    assert call["problem"]
    assert result["output_hash"] is None
    assert result["problem"]
    assert replay.problem is not None
    assert replay.calls["c"].params_hash is None


def test_a_value_that_is_too_deep_for_a_line_is_not_shown() -> None:
    deep: JsonValue = "x"
    for _ in range(63):
        deep = [deep]
    _, (call, result) = replayed(Called(PLACE, AT, "c", "sh", deep), Returned(PLACE, AT, "c", [[1]]))
    assert (call["params"], call["params_hash"]) == (None, None)
    assert "levels" in str(call["problem"])
    assert "problem" not in result


def test_only_the_first_plan_is_told_and_each_step_that_is_done() -> None:
    steps: JsonValue = [{"content": "look"}]
    _, lines = replayed(
        PlanTold(PLACE, AT, steps, 1),
        StepDone(PLACE, AT, f"use {SECRET}", "Success", 2),
        PlanTold(PLACE, AT, None, 3),
    )
    assert [line["event"] for line in lines] == ["PlanStart", "StepComplete"]
    assert (lines[0]["plan_hash"], lines[0]["step_count"]) == (hash_of(steps), 1)
    assert lines[1]["step_id"] == f"use {REDACTED}"


def test_a_plan_of_which_only_the_size_is_known_has_no_hash() -> None:
    _, (plan,) = replayed(PlanTold(PLACE, AT, None, 3))
    assert (plan["plan_hash"], plan["step_count"]) == (None, 3)


def test_a_plan_whose_hash_the_session_reports_has_that_hash_unless_its_steps_are_there() -> None:
    own = f"sha256:{'7' * 64}"
    for reported, kept in ((own, own), ("sha256:00", None), (7, None)):
        told = told_by_events("t", [line_of({"event": "PlanStart", "plan_hash": reported, "step_count": 2})])
        replay, (plan,) = replayed(*told)
        assert (plan["plan_hash"], plan["step_count"]) == (kept, 2)
        assert receipt_body(replay, (), ())["plan_hash"] == kept
    steps: JsonValue = ["look"]
    told = told_by_events("t", [line_of({"event": "PlanStart", "plan_hash": own, "steps": steps})])
    assert replayed(*told)[1][0]["plan_hash"] == hash_of(steps)


def test_a_verification_that_an_adjutant_session_reports_is_in_the_replay_and_the_receipt() -> None:
    record: JsonValue = {
        "event": "Verification",
        "commands": ["pytest  -q", f"deploy {SECRET}"],
        "exit_codes": [1, 0],
        "verification_delta": 2,
    }
    replay, (line,) = replayed(*AdjutantCalls().take("REPLAY.jsonl", [line_of(record)]))
    told = (["pytest -q", f"deploy {REDACTED}"], [1, 0], 2)
    assert (line["commands"], line["exit_codes"], line["verification_delta"]) == told
    body = receipt_body(replay, (), ())["verification"]
    assert body == dict(zip(("commands_run", "exit_codes", "verification_delta"), told, strict=True))
    assert replayed(*told_by_events("trace.jsonl", [line_of(record)]))[1] == [], (
        "a native run's own does not count"
    )
    torn = AdjutantCalls().take("REPLAY.jsonl", [line_of({"event": "Verification", "commands": ["make"]})])
    replay, lines = replayed(*torn)
    assert (lines, len(replay.problems)) == ([], 1)


def test_what_calls_show_counts_before_what_the_session_says_of_its_verification() -> None:
    called, returned = (
        Called(PLACE, AT, "c", "sh", {"command": "pytest"}),
        Returned(PLACE, AT, "c", "", "no", False, 1),
    )
    replay, _ = replayed(called, returned, VerificationTold(PLACE, AT, (("pytest", 0),)))
    assert [(run.command, run.exit_code) for run in replay.verification.runs()] == [("pytest", 1)]


def line_of(record: JsonValue) -> PlacedLine:
    content = json.dumps(record).encode()
    return PlacedLine(1, 0, content)


def test_readers_take_a_line_with_as_many_values_as_are_shown() -> None:
    value = b"[" + b"0," * (MOST_VALUES - OF_A_LINE - 1) + b"0]"
    assert not replay_lines.has_more_values(value)
    assert replay_lines.has_more_values(value[:-1] + b",0" * (OF_A_LINE + 1) + b"]")


def test_a_value_of_more_parts_than_readers_take_is_not_shown_and_has_no_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert bundle_replay._MOST_SHOWN == MOST_VALUES - OF_A_LINE
    most = 50_000  # of two million, a reader takes seconds
    monkeypatch.setattr(bundle_replay, "_MOST_SHOWN", most)
    monkeypatch.setattr(
        replay_lines, "has_more_values", partial(replay_lines.has_more_values, most=most + OF_A_LINE)
    )
    params: JsonValue = [0] * (most - 1)
    more: JsonValue = [0] * (most + 1)
    replay, lines = replayed(Called(PLACE, AT, "a", "sh", params), Called(PLACE, AT, "b", "sh", more))
    assert (lines[0]["params"], lines[0]["params_hash"]) == (params, hash_of(params))
    assert (lines[1]["params"], lines[1]["params_hash"], lines[1]["problem"]) == (None, None, TOO_MANY)
    assert replay.problem == f"trace.jsonl:1: {TOO_MANY}"
    for line in lines:
        assert read_line(RawLine(1, canonical_bytes(line))).problem is None
