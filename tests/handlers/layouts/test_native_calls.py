"""What a native run's trace tells: REPLAY events without hashes, as many as the run likes."""

import json

import pytest
from tests.handlers.layouts.placed import told

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Place, PlanTold, Returned, Stated, StepDone, Told, Unusable

AT = "2026-01-31T12:00:00Z"
SECONDS = 1_769_860_800.0


def trace(*events: JsonValue) -> list[Told]:
    return told("native", "run_1", [json.dumps(event).encode() for event in events])


def event(kind: str, **more: JsonValue) -> JsonValue:
    return {"event": kind, "t": AT, **more}


def test_a_trace_tells_its_calls_its_plan_and_its_steps() -> None:
    found = trace(
        event("SessionStart", session_id="x", issue_number=42, policy_bundle_id="strict"),
        event("PlanStart", plan={"steps": ["look", "fix"]}),
        event("ToolCall", id="c1", tool="shell", params={"cmd": "ls"}, step_id="s1"),
        event(
            "ToolResult",
            id="c1",
            output={"content": "a", "error": None, "success": True},
            exit_code=0,
            step_utility=0.5,
        ),
        event("StepComplete", step_id="s1", status="Success", iterations=2),
        event("SessionEnd", status="Success", confidence=0.9),
    )
    assert [each[1:] for each in found] == [
        Stated(Place("", 1, 0, 0), 42, "strict")[1:],
        PlanTold(Place("", 1, 0, 0), SECONDS, {"steps": ["look", "fix"]}, 2)[1:],
        Called(Place("", 1, 0, 0), SECONDS, "c1", "shell", {"cmd": "ls"}, "s1")[1:],
        Returned(Place("", 1, 0, 0), SECONDS, "c1", "a", None, True, 0, 0.5)[1:],
        StepDone(Place("", 1, 0, 0), SECONDS, "s1", "Success", 2)[1:],
        Stated(Place("", 1, 0, 0), confidence=0.9)[1:],
    ]
    assert [each.place.line for each in found] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("more", "content", "error", "success"),
    [
        ({"output": {"content": "a", "success": True}}, "a", None, True),
        ({"output": {"error": "no", "success": False}}, None, "no", False),
        ({"output": {"error": "no"}}, None, "no", False),
        ({"output": {"content": "why", "success": False}}, None, "why", False),
        ({"output": {"files": 3}}, {"files": 3}, None, True),
        ({"output": "bare"}, "bare", None, True),
        ({"output": "bare", "exit_code": 1}, None, "bare", False),
        ({"output": {"content": "a", "error": None, "success": True}, "exit_code": 1}, "a", None, True),
        ({}, None, None, True),
    ],
)
def test_an_output_may_be_whole_or_bare(
    more: dict[str, JsonValue], content: JsonValue, error: JsonValue, success: bool
) -> None:
    (returned,) = trace(event("ToolResult", id="c1", **more))
    assert isinstance(returned, Returned)
    assert (returned.content, returned.error, returned.success) == (content, error, success)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"event":"ToolCall","tool":"x"}', "without id"),
        (b'{"event":"ToolCall","id":"c"}', "without tool"),
        (b'{"event":"ToolCall","id":7,"tool":"x"}', "without id"),
        (b'{"event":"ToolResult"}', "without id"),
        (b'{"event":"StepComplete","step_id":"s"}', "without status"),
        (b'{"event":"SessionStart","issue_number":"42"}', "issue_number"),
        (b'{"event":"SessionEnd","confidence":1.5}', "confidence"),
        (b'{"event":"ToolCall","id":"c","tool":"x","params":{"a":1,"a":2}}', "appears twice"),
        (b'{"event":"ToolCall","id":"c","tool":"x","params":"\\ud800"}', "surrogate"),
        (b'{"event":"ToolCall","id":"c","tool":"x","params":NaN}', "NaN"),
    ],
)
def test_a_line_that_cannot_be_used_is_a_problem_and_hides_no_other(line: bytes, problem: str) -> None:
    good = b'{"event":"ToolCall","id":"good","tool":"x"}'
    bad, called = told("native", "run_1", [line, good])
    assert isinstance(bad, Unusable)
    assert problem in bad.problem
    assert bad.place.line == 1
    assert isinstance(called, Called)


def test_a_utility_out_of_bounds_is_left_out_and_said() -> None:
    bad, returned = trace(event("ToolResult", id="c1", output="a", step_utility=3))
    assert isinstance(bad, Unusable)
    assert isinstance(returned, Returned)
    assert returned.step_utility is None


@pytest.mark.parametrize(
    "line",
    [b"", b" \r", b'{"event":"Later","t":1}', b'{"t":"x"}', b'{"event":"ToolCall","id":"c","tool":"x"}\r'],
)
def test_blank_lines_unknown_events_and_windows_line_ends_are_no_problem(line: bytes) -> None:
    assert not any(isinstance(each, Unusable) for each in told("native", "run_1", [line]))


def test_the_service_s_form_is_read_too() -> None:
    (called,) = trace({"type": "ToolCall", "ts": AT, "id": "c", "tool": "x"})
    assert isinstance(called, Called)
    assert called.at == SECONDS


def test_a_time_that_is_none_is_unknown() -> None:
    (called,) = trace({"event": "ToolCall", "t": "yesterday", "id": "c", "tool": "x"})
    assert isinstance(called, Called)
    assert called.at is None
