"""Which calls a Codex rollout tells, with what came of them."""

from pathlib import Path

import pytest
from tests.handlers.layouts.codex_lines import (
    NAME,
    PARENT,
    BareLog,
    Log,
    bare_tool,
    forked,
    oldest_tool,
    resumed,
    tool,
    write,
)
from tests.handlers.layouts.directories import HUGE
from tests.handlers.layouts.placed import told, told_in_halves

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, PlanTold, Returned, StepDone, Told, Unusable


def calls(log: Log) -> list[Told]:
    return told("codex", NAME, [write(record) for record in log.records])


def begun() -> Log:
    return Log().meta().start(1).setting().prompt("go", 1)


@pytest.mark.parametrize("huge", HUGE, ids=["large", "small", "float"])
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_number_that_nobody_can_read_hides_no_call(number: int, is_nested: bool, huge: float) -> None:
    log = tool()
    record = log.records[number]
    (record["payload"] if is_nested else record)["nobody_reads_this"] = huge
    called, returned = calls(log)
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)


def test_a_call_and_its_output_are_told_with_their_times_and_tokens() -> None:
    called, returned = calls(tool())
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)
    assert (called.id, called.tool, called.params, called.tokens) == ("call_1", "exec_command", {}, None)
    assert (returned.id, returned.success, returned.exit_code, returned.tokens) == ("call_1", True, 0, 110)
    assert called.at is not None
    assert returned.at is not None
    assert returned.at - called.at == pytest.approx(0.5)


def test_tokens_that_were_told_before_the_call_are_the_call_s() -> None:
    called, returned = calls(oldest_tool())
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)
    assert (called.tokens, returned.tokens) == (110, None)


def test_the_tokens_of_a_last_answer_are_no_later_call_s() -> None:
    found = [each for each in calls(resumed()) if isinstance(each, Called | Returned)]
    assert [each.tokens for each in found] == [None, 110]


def test_of_several_calls_of_a_reply_the_first_has_its_tokens() -> None:
    log = begun().call().call().reply_record("r1").output(call="call_1").output(call="call_2").tokens()
    log.call().reply_record("r2", 200, 20).output().tokens(200, 20)
    found = {each.id: each.tokens for each in calls(log) if isinstance(each, Returned)}
    assert found == {"call_1": 110, "call_2": None, "call_3": 220}


@pytest.mark.parametrize(
    ("arguments", "params"),
    [
        ('{"cmd": ["a", "b"]}', {"cmd": ["a", "b"]}),
        ("[1, 2]", [1, 2]),
        ("no json", "no json"),
        ("{broken", "{broken"),
        ("", ""),
    ],
)
def test_arguments_are_parsed_if_they_are_json(arguments: str, params: JsonValue) -> None:
    log = begun().item("function_call", name="shell", arguments=arguments, call_id="c")
    (called,) = calls(log)
    assert isinstance(called, Called)
    assert (called.params, called.problem) == (params, None)


def test_arguments_with_a_key_twice_are_kept_as_text_and_not_hashed() -> None:
    log = begun().item("function_call", name="shell", arguments='{"a":1,"a":2}', call_id="c")
    (called,) = calls(log)
    assert isinstance(called, Called)
    assert called.params == '{"a":1,"a":2}'
    assert called.problem is not None


@pytest.mark.parametrize(
    ("kind", "payload", "name", "params"),
    [
        ("custom_tool_call", {"name": "apply_patch", "input": "*** Begin"}, "apply_patch", "*** Begin"),
        ("local_shell_call", {"action": {"command": ["ls"]}}, "local_shell", {"command": ["ls"]}),
        ("web_search_call", {"action": {"query": "x"}}, "web_search", {"query": "x"}),
        ("tool_search_call", {"arguments": {"query": "x"}}, "tool_search", {"query": "x"}),
        (
            "image_generation_call",
            {"revised_prompt": "a cat", "result": "aGk="},
            "image_generation",
            {"prompt": "a cat"},
        ),
    ],
)
def test_every_kind_of_call_has_its_params(
    kind: str, payload: dict[str, JsonValue], name: str, params: JsonValue
) -> None:
    (called,) = calls(begun().item(kind, call_id="c", **payload))
    assert isinstance(called, Called)
    assert (called.id, called.tool, called.params) == ("c", name, params)


def test_a_call_without_id_is_known_by_its_line() -> None:
    log = begun().item("web_search_call", action={})
    (called,) = calls(log)
    assert isinstance(called, Called)
    assert called.id == f"web_search_call@{len(log.records)}"


@pytest.mark.parametrize(
    ("output", "exit_code", "success"),
    [
        ("Exit code: 0\nWall time: 1s\nOutput:\n", 0, True),
        ("Exit code: 101\nWall time: 1s\nOutput:\n", 101, False),
        ("Chunk ID: a\nWall time: 0.1\nProcess exited with code 2\nOutput:\n", 2, False),
        ('{"output":"x","metadata":{"exit_code":1,"duration_seconds":0.1}}', 1, False),
        ("as it said: Exit code: 3", None, True),
        ([{"type": "input_text", "text": "x"}], None, True),
        ({"content": "x", "success": False}, None, False),
    ],
)
def test_an_output_tells_how_its_command_ended(
    output: JsonValue, exit_code: int | None, success: bool
) -> None:
    returned = calls(begun().call().output(output))[1]
    assert isinstance(returned, Returned)
    assert (returned.exit_code, returned.success) == (exit_code, success)
    assert (returned.content if success else returned.error) == output


def test_a_tool_that_is_said_to_have_failed_did() -> None:
    log = begun().call()
    log.event("item_completed", item={"type": "McpToolCall", "id": "call_1", "status": "failed"}).output("no")
    returned = calls(log)[1]
    assert isinstance(returned, Returned)
    assert (returned.content, returned.error, returned.success) == (None, "no", False)


def test_a_fork_s_copied_calls_are_none_of_its_own() -> None:
    fork = forked()
    assert calls(fork) == []
    fork.start(2).prompt("and now", 2).call(call="own").reply_record("r9").output(call="own").tokens()
    found = calls(fork)
    assert [type(each) for each in found] == [Called, Returned]
    assert isinstance(found[1], Returned)
    assert (found[1].id, found[1].tokens) == ("own", 110)


def test_a_fork_of_a_fork_is_one_too() -> None:
    grandfather = (
        Log(PARENT).meta().start(1).prompt("first", 1).call(call="old").output(call="old").complete(1)
    )
    fork = Log().meta(forked_from_id=PARENT).copy_of(grandfather)
    assert calls(fork) == []


def test_a_plan_is_told_with_the_steps_that_are_done() -> None:
    log = begun()
    arguments = '{"plan":[{"step":"look","status":"completed"},{"step":"fix","status":"pending"}]}'
    log.item("function_call", name="update_plan", arguments=arguments, call_id="c")
    found = calls(log)
    assert [type(each) for each in found] == [Called, PlanTold, StepDone]
    assert isinstance(found[1], PlanTold)
    assert found[1].step_count == 2


def test_a_bare_rollout_tells_its_calls_without_times() -> None:
    called, returned = calls(bare_tool())
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)
    assert (called.at, called.tool, returned.exit_code, returned.success) == (None, "shell", 1, False)
    assert isinstance(bare_tool(), BareLog)


def test_a_record_that_is_written_twice_counts_once() -> None:
    log = begun().call()
    lines = [write(record) for record in log.records]
    assert len(told("codex", NAME, [*lines, lines[-1]])) == 1


def test_a_full_copy_after_a_torn_record_counts() -> None:
    lines = [write(record) for record in begun().call().records]
    found = told("codex", NAME, [*lines[:-1], lines[-1][:60] + lines[-1]])
    assert "call_1" in [each.id for each in found if isinstance(each, Called)]


def test_a_torn_record_of_a_call_is_a_problem_with_its_line() -> None:
    lines = [write(record) for record in begun().call().say().records]
    (found,) = told("codex", NAME, [*lines[:-2], lines[-2][:-5], lines[-1]])
    assert isinstance(found, Unusable)
    assert found.place.line == len(lines) - 1


@pytest.mark.parametrize("log", [tool(), oldest_tool(), resumed(), forked(), bare_tool()])
def test_a_reader_that_goes_on_anywhere_tells_the_same(log: Log) -> None:
    lines = [write(record) for record in log.records]
    whole = told("codex", NAME, lines)
    for first in range(len(lines) + 1):
        assert told_in_halves("codex", NAME, lines, first) == whole


def test_a_recorded_call_is_read(material: Path) -> None:
    lines = (material / "samples/codex/rollout-tool.jsonl").read_bytes().splitlines()
    called, returned = told("codex", NAME, lines)
    assert isinstance(called, Called)
    assert isinstance(returned, Returned)
    assert called.params == {"cmd": "echo hi > out.txt", "yield_time_ms": 30000}
    assert (returned.exit_code, returned.tokens) == (0, 110)
