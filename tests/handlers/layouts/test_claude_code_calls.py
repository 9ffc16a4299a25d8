"""Which calls a Claude Code transcript tells, with what came of them."""

import json
from pathlib import Path

import pytest
from tests.handlers.layouts.claude_code_lines import BEGAN, PARENT, SESSION, Transcript
from tests.handlers.layouts.placed import told, told_in_halves

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Paid, PlanTold, Returned, StepDone, Told, Unusable

NAME = f"{SESSION}.jsonl"


def calls(transcript: Transcript) -> list[Told]:
    return told("claude-code", NAME, transcript.lines)


def only(kind: type[Told], found: list[Told]) -> list[Told]:
    return [each for each in found if isinstance(each, kind)]


def test_a_call_and_its_result_are_told_with_their_places() -> None:
    log = Transcript()
    log.prompt("go")
    call = log.call("Bash", command="true")
    log.result(call, "fine", toolUseResult={"stdout": "fine", "stderr": "", "interrupted": False})
    called, returned = calls(log)
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)
    assert called[1:] == (BEGAN + 3, call, "Bash", {"command": "true"}, None, 131, None, None)
    assert returned[1:] == (BEGAN + 4, call, "fine", None, True, 0, None, None, None)
    content = log.content()
    for each, line in ((called, log.lines[3]), (returned, log.lines[4])):
        assert content[each.place.start : each.place.start + each.place.length] == line
        assert content.count(b"\n", 0, each.place.start) + 1 == each.place.line


def test_a_failed_call_has_an_error_and_no_content() -> None:
    log = Transcript()
    log.prompt("go")
    log.result(log.call(), "Exit code 2\nno such file", is_error=True)
    returned = calls(log)[1]
    assert isinstance(returned, Returned)
    assert returned[3:7] == (None, "Exit code 2\nno such file", False, 2)


@pytest.mark.parametrize(
    "record",
    [
        {"stdout": "", "backgroundTaskId": "b1"},
        {"stdout": "", "interrupted": True},
        {"stdout": "", "returnCodeInterpretation": "No matches found"},
        {"filePath": "/a"},
        "text",
        None,
    ],
)
def test_an_exit_code_that_nobody_reported_is_unknown(record: JsonValue) -> None:
    log = Transcript()
    log.prompt("go")
    log.result(log.call(), "done", toolUseResult=record)
    returned = calls(log)[1]
    assert isinstance(returned, Returned)
    assert returned.exit_code is None


def test_what_the_session_cost_is_what_each_process_added_to_it() -> None:
    log = Transcript()
    log.prompt("go")
    log.result(log.call())
    log.text("Done.")
    log.note("cost-state", totalCostUSD=0.25)
    log.prompt("and again")
    log.text("Done.")
    log.note("cost-state", totalCostUSD=1)
    log.note("cost-state", totalCostUSD=1)
    for unbelievable in (-1, 1e9, "2", None, True):
        log.note("cost-state", totalCostUSD=unbelievable)
    log.write({"type": "cost-state", "sessionId": PARENT, "totalCostUSD": 5})
    assert [each.usd for each in calls(log) if isinstance(each, Paid)] == [0.25, 0.75]


def test_calls_whose_reply_another_session_asked_for_are_its_own() -> None:
    log = Transcript(entrypoint="cli")
    log.prompt("go")
    log.text("Well,", "tool_use", requestSessionId=PARENT)
    call: JsonValue = [{"type": "tool_use", "id": "copied", "name": "Bash", "input": {}}]
    log.said(call, "tool_use", requestSessionId=PARENT)
    log.result("copied")
    log.prompt("and again")
    own: JsonValue = [{"type": "tool_use", "id": "own", "name": "Bash", "input": {}}]
    log.said(own, "tool_use", requestSessionId=SESSION)
    log.result("own")
    log.note("cost-state", totalCostUSD=1)
    assert [each.usd for each in calls(log) if isinstance(each, Paid)] == [None]
    assert [(type(each), each.id) for each in calls(log) if isinstance(each, Called | Returned)] == [
        (Called, "own"),
        (Returned, "own"),
    ]


def test_the_cost_of_a_fork_is_not_known_for_its_origins_is_in_it() -> None:
    log = Transcript()
    log.prompt("go", forkedFrom={"sessionId": PARENT})
    log.text("Done.", forkedFrom={"sessionId": PARENT})
    log.prompt("and again")
    log.text("Done.")
    log.note("cost-state", totalCostUSD=1)
    assert [each.usd for each in calls(log) if isinstance(each, Paid)] == [None]


def test_blocks_of_a_result_stay_as_they_are() -> None:
    blocks: JsonValue = [{"type": "text", "text": "é"}, {"type": "image", "source": {"data": "aGk="}}]
    log = Transcript()
    log.prompt("go")
    log.result(log.call("Read"), blocks)
    returned = calls(log)[1]
    assert isinstance(returned, Returned)
    assert returned.content == blocks


def test_the_tokens_of_a_reply_are_its_first_call_s() -> None:
    log = Transcript()
    log.prompt("go")
    reply = log.text("I look.", "tool_use")
    log.call(reply=reply)
    log.call(reply=reply)
    log.call()
    found = only(Called, calls(log))
    assert [each.tokens for each in found if isinstance(each, Called)] == [131, None, 131]


def test_a_sub_agent_s_calls_are_none_of_the_session_s() -> None:
    log = Transcript()
    log.prompt("go")
    log.said([{"type": "tool_use", "id": "inner", "name": "Bash", "input": {}}], "tool_use", isSidechain=True)
    own = log.call("Task")
    assert [each.id for each in calls(log) if isinstance(each, Called)] == [own]
    assert told("claude-code", f"{SESSION}/subagents/agent-a1.jsonl", log.lines) == []


def test_a_fork_s_copied_calls_are_none_of_its_own() -> None:
    """They are older than the prompt that the fork was started with, or say where they were copied from."""
    log = Transcript()
    log.queued("go on")
    log.now -= 1000
    log.user("the origin's prompt")
    log.result(log.call(), "copied")
    log.now += 1000
    log.user("go on")
    own = log.call()
    log.chained(
        "assistant",
        message={"id": "m", "content": [{"type": "tool_use", "id": "marked", "name": "Bash", "input": {}}]},
        forkedFrom={"sessionId": PARENT},
    )
    assert [each.id for each in calls(log) if isinstance(each, Called)] == [own]


def test_calls_of_another_session_in_the_file_were_copied() -> None:
    log = Transcript(session=PARENT)
    log.prompt("go")
    log.call()
    assert calls(log) == []


def test_a_plan_is_told_each_time_and_a_step_once_it_is_done() -> None:
    log = Transcript()
    log.prompt("go")
    first: JsonValue = [{"content": "look", "status": "completed"}, {"content": "fix", "status": "pending"}]
    second: JsonValue = [
        {"content": "look", "status": "completed"},
        {"content": "fix", "status": "completed"},
    ]
    log.call("TodoWrite", todos=first)
    log.call("TodoWrite", todos=second)
    found = [each for each in calls(log) if isinstance(each, PlanTold | StepDone)]
    assert [type(each) for each in found] == [PlanTold, StepDone, PlanTold, StepDone]
    assert [each.step_id for each in found if isinstance(each, StepDone)] == ["look", "fix"]
    assert [(each.steps, each.step_count) for each in found if isinstance(each, PlanTold)] == [
        (first, 2),
        (second, 2),
    ]


def test_a_reader_that_goes_on_anywhere_tells_the_same() -> None:
    log = Transcript()
    log.prompt("go")
    todos: JsonValue = [{"content": "look", "status": "completed"}]
    for _ in range(2):
        reply = log.text("so", "tool_use")
        log.result(log.call(reply=reply), "a")
        log.result(log.call("TodoWrite", reply=reply, todos=todos), "b")
    whole = calls(log)
    assert len(only(Called, whole)) == 4
    for first in range(len(log.lines) + 1):
        assert told_in_halves("claude-code", NAME, log.lines, first) == whole


def test_a_glued_line_tells_both_of_its_records() -> None:
    log = Transcript()
    log.prompt("go")
    log.call()
    log.call()
    *before, one, other = log.lines
    found = told("claude-code", NAME, [*before, one + other])
    assert [each.id for each in found if isinstance(each, Called)] == ["toolu_1", "toolu_2"]


def test_a_torn_line_of_a_call_is_a_problem_with_its_line() -> None:
    log = Transcript()
    log.prompt("go")
    log.call(command="x" * 100)
    log.call()
    *before, one, other = log.lines
    found = told("claude-code", NAME, [*before, one[:-150], other])
    assert [type(each) for each in found] == [Unusable, Called]
    assert isinstance(found[0], Unusable)
    assert found[0].place.line == 4


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (b'{"a":1,"a":2}', "appears twice"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "deep"),
    ],
)
def test_params_that_json_leaves_open_are_said_to_be(given: bytes, problem: str) -> None:
    log = Transcript()
    log.prompt("go")
    log.call(command="CALL")
    lines = [line.replace(b'{"command":"CALL"}', given) for line in log.lines]
    (called,) = told("claude-code", NAME, lines)
    assert isinstance(called, Called)
    assert called.problem is not None
    assert problem in called.problem


@pytest.mark.parametrize(
    "stray", [b"null", b'"text"', b"[]", b"{", b"\0\0", b'{"message":{"content":[5,null]}}', b""]
)
def test_what_is_no_record_is_passed_over(stray: bytes) -> None:
    log = Transcript()
    log.prompt("go")
    log.call()
    lines = [log.lines[0], stray, *log.lines[1:], stray]
    assert [type(each) for each in told("claude-code", NAME, lines)] == [Called]


def test_a_recorded_call_is_read(material: Path) -> None:
    lines = (material / "samples/claude-code/tool.jsonl").read_bytes().splitlines()
    name = f"{json.loads(lines[0])['sessionId']}.jsonl"
    called, returned = told("claude-code", name, lines)
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)
    assert (called.tool, called.tokens, returned.content) == ("Bash", 140, "(Bash completed with no output)")
    assert called.params == {"command": "echo hi > out.txt", "description": "run"}
