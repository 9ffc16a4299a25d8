"""What only Qwen Code does: a tool that a person cancels ends the turn, and what sub-agents do is partly in the session's log."""

from typing import Final

import pytest
from hypothesis import given
from tests.handlers.layouts.directories import document
from tests.handlers.layouts.qwen_lines import SESSION, Log
from tests.handlers.layouts.test_conversations import AGENTS, OTHER

from runward.config.json_value import JsonValue
from runward.handlers.layouts.places import LogShape, shape_of
from runward.handlers.layouts.qwen import LOG
from runward.handlers.layouts.registry import LAYOUTS

QWEN = AGENTS["qwen"]


def test_a_cancelled_tool_ends_the_turn_until_something_follows() -> None:
    cancelled = Log().prompt().call().result(failed=True, status="cancelled")
    close = QWEN.told(cancelled.lines()).close
    assert close is not None
    assert close.reason_code == "run.aborted.user"
    assert QWEN.told(cancelled.prompt("go on").lines()).turn == "open"
    assert QWEN.told(cancelled.say().lines()).turn == "closed"


UNREADABLE: Final[dict[str, JsonValue]] = {
    "an empty call": [{"functionCall": {}}],
    "a call of another type": [{"functionCall": 7}],
    "a call that is null": [{"functionCall": None}, {"text": "Bye."}],
    "parts that are a text": "Bye.",
    "parts that are missing": None,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_reply_whose_calls_cannot_be_read_leaves_the_turn_open(name: str) -> None:
    log = Log().prompt().say()
    parts = UNREADABLE[name]
    log.records[-1]["message"] = {"role": "model"} if parts is None else {"role": "model", "parts": parts}
    assert QWEN.told(log.lines()).turn == "open"


def test_a_thought_is_not_part_of_the_message() -> None:
    (line,) = Log().say("Bye.").lines()
    said = LOG.message_in(line)
    assert said is not None
    assert said.text == "Bye."


def test_a_sub_agent_is_counted_and_its_error_is_not_the_session_s() -> None:
    log = (
        Log().prompt().reply({"functionCall": {"id": "call_1", "name": "agent", "args": {"prompt": "look"}}})
    )
    log.result().fail()
    payload = log.records[-1]["systemPayload"]
    assert isinstance(payload, dict)
    event = payload["uiEvent"]
    assert isinstance(event, dict)
    event["subagent_id"] = "general-purpose-call_1"
    found = QWEN.told(log.lines())
    assert (found.turn, found.counts.subagents, found.counts.errors) == ("open", 1, 0)
    del event["subagent_id"]
    assert QWEN.told(log.lines()).turn == "closed"


@pytest.mark.parametrize(
    ("subagent", "is_counted"),
    [("explore-call_c2c53d89555c4b889025", False), ("managed-auto-memory-extractor-1f2e3d4c", True)],
)
def test_what_only_the_telemetry_has_is_part_of_what_the_session_cost(
    subagent: str, is_counted: bool
) -> None:
    event: JsonValue = {
        "event.name": "qwen-code.api_response",
        "model": "mock-model",
        "input_token_count": 100,
        "cached_content_token_count": 40,
        "output_token_count": 10,
        "prompt_id": f"{SESSION}#{subagent}#0",
        "subagent_id": subagent,
    }
    log = Log().prompt().say().put("system", "system", systemPayload={"uiEvent": event})
    found = QWEN.told(log.lines())
    assert (found.usage, sum(each.replies for each in found.counted)) == ((100, 10), 1 + is_counted)


def of_subagent(log: Log) -> list[bytes]:
    """The same, as a sub-agent writes it."""
    for record in log.records:
        record |= {"isSidechain": True, "agentId": "explore-call_1"}
    return log.lines()


def test_a_sub_agent_is_a_session_of_its_own_and_no_reply_ends_its_turn() -> None:
    found = QWEN.told(of_subagent(Log().prompt().say()), "agent-explore-call_1.jsonl")
    assert (found.session_id, found.works_for) == (f"{SESSION}-explore-call_1", SESSION)
    assert (found.turn, found.usage, found.is_subagent) == ("open", (100, 10), False)
    own = QWEN.told(Log().prompt().say().lines())
    assert (own.session_id, own.works_for, own.turn) == (SESSION, None, "closed")


@given(OTHER, OTHER, OTHER, OTHER)
def test_what_is_said_about_a_sub_agent_of_any_type_raises_nothing_and_completes_nothing(
    agent: JsonValue, status: JsonValue, at: JsonValue, error: JsonValue
) -> None:
    scanner = LOG.SCANNER
    state = QWEN.fed(of_subagent(Log().prompt().say()))
    for about in ({"agentId": agent}, {"agentId": "a", "model": error}):
        said = {"status": status, "lastUpdatedAt": at, "lastError": error, **about}
        state = scanner.see(state, [document("agent-a.meta.json", said)])
        assert scanner.load(scanner.dump(state)) == state
        assert scanner.tell(state).turn == "open"


def test_the_document_of_a_sub_agent_is_its_logs_and_its_log_a_place() -> None:
    shape = shape_of(LAYOUTS.named("qwen"))
    assert isinstance(shape, LogShape)
    assert shape.place_of("work/chats/5d0f8a52.jsonl") == "work/chats/5d0f8a52.jsonl"
    log = "work/subagents/5d0f8a52/agent-explore-call_1.jsonl"
    assert shape.place_of(log) == shape.place_of(log.replace(".jsonl", ".meta.json")) == log
